"""The registration of jobs with a hub."""

from __future__ import annotations

from restante.calls.jobs import ListJobs, ListRuns, ReadJob, ReadRun
from restante.hub.engine.subject import HubSubject
from restante.hub.jobs import jobs

SUBJECT = HubSubject(functions=jobs.FUNCTIONS, reading=(ListJobs, ReadJob, ListRuns, ReadRun))
