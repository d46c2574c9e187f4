"""Workers: an app declares actions by name, and functions that do them."""

from restante.work.app import App
from restante.work.handlers import ActionHandler, ActionRequest
from restante.work.job import ActionJob as Job
from restante.work.once.dialogue import Fenced
from restante.work.signals import Again, Refused
from restante.work.signals import LocatedResult as Located

__all__ = ["ActionHandler", "ActionRequest", "Again", "App", "Fenced", "Job", "Located", "Refused"]
