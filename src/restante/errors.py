"""Everything that can go wrong, as one tree.

    RestanteError
    ├── InvalidRequest             invalid_request         the call itself makes no sense
    │   ├── InvalidMessage         invalid_message         messages refused, each named by its index
    │   ├── PartitionMismatch      partition_mismatch      a recipient does not belong to the partition
    │   ├── PartitionUnknown       partition_unknown
    │   ├── InvalidItem            invalid_item            a text that is no item id
    │   ├── InvalidSettings        invalid_settings        settings refused, each by its line
    │   ├── BodyTooLarge           body_too_large
    │   ├── UnsupportedMediaType   unsupported_media_type  a body of a type or encoding that is not understood
    │   ├── NotAcceptable          not_acceptable          an answer of a type that cannot be given
    │   ├── NotFound               not_found               there is nothing at this address
    │   ├── MethodNotAllowed       method_not_allowed
    │   ├── InvalidOperation       invalid_operation       not now, or not with this: published already, no partition
    │   └── ExtraMissing           extra_missing           a part of Restante is not installed, and is named
    ├── Unauthenticated            unauthenticated         no valid token
    ├── Forbidden                  forbidden               the token does not allow it
    ├── MessageConflict            message_conflict        an id stored before, with other content
    ├── MessageErased              message_erased          the message was erased for good
    ├── MessageUnknown             message_unknown
    ├── MessageCollected           message_collected       too late: the recipient has it
    ├── MessageSettled             message_settled         too late: it was withdrawn, or has expired
    ├── BundleUnknown              bundle_unknown          unknown, another's, or dequeued already
    ├── BundleOpen                 bundle_open             another bundle is open, and is named
    ├── BundleIdUsed               bundle_id_used
    ├── InvalidClientState         invalid_client_state    a producer's numbers do not follow its last ones
    │   └── LinkRefused            link_refused            the offered last number is not the hub's
    ├── ProducerDisconnected       producer_disconnected   a producer of a higher owner level has taken over
    ├── ProducerUnknown            producer_unknown
    ├── JobUnknown                 job_unknown             no run of the job was reported, or it was forgotten
    ├── NodeUnknown                node_unknown
    ├── LastNode                   last_node               nobody could take the shards of this node
    ├── BatchUnknown               batch_unknown
    ├── BatchSealed                batch_sealed            nothing more can be added
    ├── BatchKeyUsed               batch_key_used          another open batch has this key, and is named
    ├── ConsignmentUnknown         consignment_unknown
    ├── ConsignmentClosed          consignment_closed      it was committed or discarded
    ├── ConsignmentIncomplete      consignment_incomplete  not all that was announced is staged
    ├── GroupUnknown               group_unknown
    ├── MemberUnknown              member_unknown          its lease has ended: stop all, and join again
    ├── GroupConflict              group_conflict          the group has another filter, and is shown
    ├── GenerationStale            generation_stale        the partition was given to another member since
    ├── ActionTaken                action_taken            another group has the action, and is named
    ├── ActionUnknown              action_unknown          no action has this id, or no group this action
    ├── PositionGone               position_gone           the feed no longer reaches back so far
    ├── PositionAhead              position_ahead          the feed does not reach so far: an older backup was restored
    ├── OriginDidNotDeliver        origin_did_not_deliver  claim-check content did not come in time
    ├── Unavailable                unavailable             the hub is closed or out of reach, or its store failed
    │   ├── OutcomeUnknown         outcome_unknown         no answer came: it may have been carried out
    │   ├── PartlyStored           partly_stored           some messages are stored, others are not known to be
    │   ├── Overloaded             overloaded              more is waiting than the hub has room for
    │   ├── NotOwner               not_owner               this hub does not own the partition, or not for certain
    │   ├── StoreConflict          store_conflict          another owner has taken the partition
    │   ├── DataLocked             data_locked             another process has the data folder open
    │   └── StorageFull            storage_full
    ├── Internal                   internal                a defect of the hub; its log has more, by the correlation id
    ├── DataDamaged                data_damaged            stored bytes fail their checksum or make no sense
    └── FormatUnsupported          format_unsupported      the data was written by another version

A code never changes once released. `retriable` says whether the same call may succeed later, unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault of one message of a send."""

    index: int
    code: str
    detail: str
    field: str | None = None
    id: str | None = None


class RestanteError(Exception):
    """The base of all errors of the hub; `details` holds what the code needs (an id, a number, a time)."""

    code: ClassVar[str] = "internal"
    retriable: bool = False

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidRequest(RestanteError):
    code = "invalid_request"


class FaultyMessages(RestanteError):
    """Messages of a send were refused: nothing of it was stored. `faults` names every one of them."""

    def __init__(self, message: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class InvalidMessage(FaultyMessages, InvalidRequest):
    code = "invalid_message"


class PartitionMismatch(FaultyMessages, InvalidRequest):
    code = "partition_mismatch"


class PartitionUnknown(InvalidRequest):
    code = "partition_unknown"


class InvalidItem(InvalidRequest):
    code = "invalid_item"


class InvalidSettings(InvalidRequest):
    code = "invalid_settings"


class BodyTooLarge(InvalidRequest):
    code = "body_too_large"


class UnsupportedMediaType(InvalidRequest):
    code = "unsupported_media_type"


class NotAcceptable(InvalidRequest):
    code = "not_acceptable"


class NotFound(InvalidRequest):
    code = "not_found"


class MethodNotAllowed(InvalidRequest):
    """`details["allow"]` lists the methods that are allowed."""

    code = "method_not_allowed"


class InvalidOperation(InvalidRequest):
    code = "invalid_operation"


class ExtraMissing(InvalidRequest):
    code = "extra_missing"


class Unauthenticated(RestanteError):
    code = "unauthenticated"


class Forbidden(RestanteError):
    code = "forbidden"


class MessageConflict(FaultyMessages):
    code = "message_conflict"


class MessageErased(FaultyMessages):
    code = "message_erased"


class MessageUnknown(RestanteError):
    code = "message_unknown"


class MessageCollected(RestanteError):
    code = "message_collected"


class MessageSettled(RestanteError):
    """Details: `state`, what became of it."""

    code = "message_settled"


class BundleUnknown(RestanteError):
    """Unknown, another recipient's, or dequeued before; then `details["dequeued_at"]` says when."""

    code = "bundle_unknown"


class BundleOpen(RestanteError):
    code = "bundle_open"


class BundleIdUsed(RestanteError):
    code = "bundle_id_used"


class InvalidClientState(RestanteError):
    """Nothing was stored. `details["expected"]` is the number that the hub would accept next."""

    code = "invalid_client_state"


class ProducerDisconnected(RestanteError):
    """`details["received"]` is the owner level of the refused producer, `details["current"]` that of the group now."""

    code = "producer_disconnected"


class LinkRefused(InvalidClientState):
    """`details["expected"]` is the hub's last number of the producer group, or None if it has none."""

    code = "link_refused"


class ProducerUnknown(RestanteError):
    code = "producer_unknown"


class SourceUnknown(RestanteError):
    code = "source_unknown"


class JobUnknown(RestanteError):
    code = "job_unknown"


class NodeUnknown(RestanteError):
    code = "node_unknown"


class LastNode(RestanteError):
    code = "last_node"


class BatchUnknown(RestanteError):
    code = "batch_unknown"


class BatchSealed(RestanteError):
    code = "batch_sealed"


class BatchKeyUsed(RestanteError):
    code = "batch_key_used"


class ConsignmentUnknown(RestanteError):
    code = "consignment_unknown"


class ConsignmentClosed(RestanteError):
    """Details: `state`, what it is."""

    code = "consignment_closed"


class ConsignmentIncomplete(RestanteError):
    """Details: `writers`, of each that differs what was announced and what is staged."""

    code = "consignment_incomplete"


class GroupUnknown(RestanteError):
    code = "group_unknown"


class MemberUnknown(RestanteError):
    code = "member_unknown"


class GroupConflict(RestanteError):
    """Details: `origins`, `kinds` and `gone`, the filter that the group has."""

    code = "group_conflict"


class GenerationStale(RestanteError):
    """Nothing was changed. Details: `generation`, the one in force; of several partitions `stale`, those that are."""

    code = "generation_stale"


class ActionTaken(RestanteError):
    """Details: `action`, and `group`, which has it."""

    code = "action_taken"


class ActionUnknown(RestanteError):
    """The action does not exist, or nobody does it."""

    code = "action_unknown"


class PositionGone(RestanteError):
    """Details: `first`, the first number that there is."""

    code = "position_gone"


class PositionAhead(RestanteError):
    """Details: `end`, the last number that there is."""

    code = "position_ahead"


class OriginDidNotDeliver(RestanteError):
    code = "origin_did_not_deliver"
    retriable = True


class Unavailable(RestanteError):
    code = "unavailable"
    retriable = True


class OutcomeUnknown(Unavailable):
    """The call may have been carried out, or may still be. To repeat it unchanged does no harm."""

    code = "outcome_unknown"
    parcel: Any = None
    """The parcel of a producer's send, to be sent again."""


class PartlyStored(Unavailable):
    """Some messages of a send are stored; `details["lost"]` names those that are not known to be. Send those again.

    If shards did not answer: `partitions`, what is stored, and `ids` that were made, if the sender gave none.
    """

    code = "partly_stored"
    retriable = False


class Overloaded(Unavailable):
    """`details["retry_after"]` says after how many seconds to try again."""

    code = "overloaded"


class PartlyAnswered(PartlyStored):
    """Some shards did not answer, and the sender gave the ids: the same again stores what is missing."""

    retriable = True


class NotOwner(Unavailable):
    """The hub's lease of the store has ended. Nothing was changed, and nothing that was read is in the answer."""

    code = "not_owner"


class StoreConflict(Unavailable):
    code = "store_conflict"


class DataLocked(Unavailable):
    code = "data_locked"


class StorageFull(Unavailable):
    code = "storage_full"


class Internal(RestanteError):
    """A defect of the hub: `details["correlation_id"]` finds it in the hub's log."""

    code = "internal"


class DataDamaged(RestanteError):
    code = "data_damaged"


class FormatUnsupported(RestanteError):
    code = "format_unsupported"
