"""`Lane`: the numbering of one partition by a producer, and the parcels whose outcome it does not know.

A parcel gets the next number when it is sent. From then on it is *unresolved*, until an answer says whether it was stored,
in which case the lane goes on after it, or refused, in which case its numbers are free again. Without an answer it stays
unresolved, and keeps its numbers.
"""

from __future__ import annotations

from collections import deque
from itertools import chain

from restante.client.producers.configuration import PartitionPublishingConfiguration, PartitionPublishingProperties
from restante.client.publishing.parcel import Parcel
from restante.errors import InvalidClientState, InvalidOperation, LinkRefused, ProducerDisconnected, RestanteError
from restante.limits import UNRESOLVED_PARCELS_MAX
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers, next_number


class Lane:
    """The numbering of one partition. The producer's carrier runs only one dialogue of a lane at a time."""

    def __init__(self, partition: int, configuration: PartitionPublishingConfiguration) -> None:
        self.partition = partition
        self.group = configuration.producer_group_id
        self.level = configuration.owner_level
        self.last = configuration.starting_sequence_number
        self.agreed = False
        """Whether the hub has confirmed `last`."""
        self.unresolved: list[Parcel] = []
        self.unheard: deque[Parcel] = deque(maxlen=UNRESOLVED_PARCELS_MAX)
        """Parcels found to be stored after their senders had got no answer."""
        self.fenced: ProducerDisconnected | None = None
        self.stale: LinkRefused | None = None
        """The refusal of the configured number, which is not the hub's last: only a repetition of the hub's last is taken."""

    @property
    def configuration(self) -> PartitionPublishingConfiguration:
        """The configuration with which a later producer can go on."""
        return PartitionPublishingConfiguration(self.group, self.level, self.last)

    @property
    def properties(self) -> PartitionPublishingProperties:
        return PartitionPublishingProperties(
            partition=self.partition,
            is_idempotent_publishing_enabled=True,
            producer_group_id=self.group,
            owner_level=self.level,
            last_published_sequence_number=self.last,
        )

    def parcel_of(self, sent: object, batch: str | None = None) -> Parcel | None:
        """The parcel of these very messages and this batch whose sender got no answer; None if there is none."""
        left = (parcel for parcel in chain(self.unresolved, self.unheard) if parcel.batch == batch)
        return next((parcel for parcel in left if parcel.holds(sent)), None)

    def admit(self, parcel: Parcel) -> None:
        """Accept a parcel that was numbered elsewhere. It must be of this group, and keeps its numbers only at this level."""
        numbers = parcel.numbers
        if numbers is None:
            return
        if self.group is None:
            self.group = numbers.group
        if numbers.group != self.group:
            raise InvalidOperation(
                f"The parcel was numbered by producer group {numbers.group}, and this producer is of group {self.group}. "
                "Send it with a producer of its own group."
            )
        if self.level is None:
            self.level = numbers.owner_level
        if numbers.owner_level != self.level:
            # Without its numbers, the ids of the parcel prevent it from being stored twice.
            parcel.clear_numbers()

    def begin(self, parcel: Parcel) -> ProducerNumbers:
        """The numbers of a parcel, which gets the next ones if it has none, and is unresolved from now on."""
        if parcel.numbers is None:
            assert self.agreed, "only an agreed number is given to a parcel"
            assert self.group is not None, "the hub named the group"
            assert self.level is not None, "the hub named the level"
            number = next_number(self.last)
            # Only after a crash may a parcel be recognised by its content; otherwise equal parcels are different ones.
            anew = self.stale is not None and parcel.ids_made
            own = ProducerNumbers(group=self.group, owner_level=self.level, published_sequence=number, made_anew=anew)
            parcel.give_numbers(own)
        if parcel not in self.unresolved:
            # A parcel that is forgotten here keeps its numbers, and can still be sent again.
            del self.unresolved[: max(len(self.unresolved) - UNRESOLVED_PARCELS_MAX + 1, 0)]
            self.unresolved.append(parcel)
        numbers = parcel.numbers
        assert numbers is not None, "given above"
        return numbers

    def stored(self, parcel: Parcel, receipt: Receipt, *, heard: bool = True) -> None:
        """Note that a parcel was stored, so others with the same first number were not, and never will be."""
        if len(self.unresolved) == 1:
            assert self.unresolved[0] is parcel, "what is stored was sent"
            self.unresolved.clear()
        else:
            self._resolve(parcel)
        self.last, self.agreed, self.stale = parcel.end, True, None
        parcel.set_published(None if heard else receipt)
        if not heard:
            self.unheard.append(parcel)

    def _resolve(self, parcel: Parcel) -> None:
        for other in self.unresolved:
            if other is not parcel and other.first == parcel.first:
                other.clear_numbers()
        self.unresolved = [other for other in self.unresolved if other is not parcel and other.numbers is not None]

    def refused(self, parcel: Parcel) -> None:
        """Note that a parcel was not stored."""
        parcel.clear_numbers()
        self.unresolved = [other for other in self.unresolved if other is not parcel]

    def agree(self, last: int | None) -> None:
        """Note the hub's last number. Of the unresolved parcels, only those that come next may still be accepted."""
        self.last, self.agreed, self.stale = last, True, None
        self.unresolved = [parcel for parcel in self.unresolved if parcel.first == next_number(last)]

    def disagree(self) -> None:
        """Note that the hub has other numbers than the lane. The next send asks the hub first."""
        self.agreed = False
        if self.stale is None:
            self.last = None

    def overtaken(self, parcel: Parcel, error: RestanteError) -> bool:
        """Whether a parcel was refused because an unresolved one with the same numbers was stored meanwhile."""
        expected = error.details.get("expected")
        return isinstance(error, InvalidClientState) and any(
            other is not parcel and other.first == parcel.first and next_number(other.end) == expected
            for other in self.unresolved
        )
