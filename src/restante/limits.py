"""Every bound of the hub, with its unit, and the relations that must hold between them.

A bound that can be crossed by a caller is a clear error; one that cannot is asserted where data enters.
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

# A message.
RECIPIENT_CHARACTERS_MAX = 256
ORIGIN_CHARACTERS_MAX = 64
KIND_CHARACTERS_MAX = 256
DOCUMENT_TYPE_CHARACTERS_MAX = 256
MEDIA_TYPE_CHARACTERS_MAX = 256
DATA_BYTES_MAX = 1 * MIB
WEIGHT_KIB_MAX = 2**31 - 1
PROPERTIES_MAX = 64
PROPERTIES_BYTES_MAX = 16 * KIB

# A send, and a commit of many.
SEND_BYTES_MAX = 64 * MIB
SEND_MESSAGES_MAX = 1_000_000
COMMIT_REQUESTS_MAX = 4_096
COMMIT_BYTES_MAX = 2 * SEND_BYTES_MAX
QUEUE_REQUESTS_MAX = 65_536
SMALL_SEND_MESSAGES_MAX = 64

# A bundle.
BUNDLE_WEIGHT_KIB_MAX = 51_200
CONTENT_BYTES_MAX = 50 * MIB
CONTENT_SECONDS_MAX = 30.0
WAIT_SECONDS_MAX = 25.0
CHANGE_MESSAGES_MAX = 51_200

# Pages of lists.
PAGE_DEFAULT = 100
PAGE_MAX = 1_000
HISTORY_BYTES_MAX = 64 * MIB

# Partitions.
PARTITIONS_DEFAULT = 16
PARTITIONS_MAX = 10_000

# How messages lie in the store.
DRAWER_MESSAGES_MAX = 10_000
SEGMENT_BYTES_TARGET = 7 * MIB
BLOB_BYTES_MAX = 8 * MIB
BLOCK_BYTES = 16 * KIB

# Filing: runs of like size, eight at a time; small ones in larger handfuls.
FILING_FAN_IN = 8
FILING_FAN_IN_MAX = 64
UNFILED_RUNS_MAX = 256
RUN_MESSAGES_MAX = 2**32 - 1

assert SEGMENT_BYTES_TARGET + DATA_BYTES_MAX <= BLOB_BYTES_MAX, "a segment closed by one more message is still a blob"
assert BUNDLE_WEIGHT_KIB_MAX * KIB == CONTENT_BYTES_MAX, "a full bundle of 1 KiB units is the largest content"
assert CHANGE_MESSAGES_MAX >= BUNDLE_WEIGHT_KIB_MAX, "one change record holds a whole bundle"
assert COMMIT_BYTES_MAX >= SEND_BYTES_MAX, "the largest send fits in one commit"
assert BLOB_BYTES_MAX % BLOCK_BYTES == 0
assert FILING_FAN_IN <= FILING_FAN_IN_MAX < UNFILED_RUNS_MAX
