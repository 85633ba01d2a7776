"""Binary packets of the wire protocol (docs/protocol.md): a header of 24 bytes, then s16le samples."""

import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np

from studio.core.errors import BadMessage

PROTOCOL: Literal[1] = 1
_MAX_U32 = 2**32 - 1
_HEADER = struct.Struct("<BBHIIIQ")  # version, kind, flags, utterance, take, seq, first_sample
_PCM_S16LE = 1


@dataclass(frozen=True)
class Packet:
    """A binary packet: PCM int16 [T] of ``utterance`` beginning at ``first_sample``."""

    utterance: int
    take: int
    seq: int
    first_sample: int
    pcm: np.ndarray


def pack_packet(packet: Packet) -> bytes:
    """A header of 24 bytes, then s16le samples."""
    header = _HEADER.pack(
        PROTOCOL, _PCM_S16LE, 0, packet.utterance, packet.take, packet.seq & _MAX_U32, packet.first_sample
    )
    return header + packet.pcm.astype("<i2", copy=False).tobytes()


def unpack_packet(data: bytes) -> Packet:
    """Parse a packet. Raises BadMessage."""
    if len(data) < _HEADER.size or (len(data) - _HEADER.size) % 2:
        raise BadMessage(f"{len(data)} bytes are no packet", f"it is {_HEADER.size} bytes and whole 16 bit samples")
    version, kind, flags, utterance, take, seq, first_sample = _HEADER.unpack_from(data)
    if (version, kind, flags) != (PROTOCOL, _PCM_S16LE, 0):
        raise BadMessage(f"a packet of version {version}, kind {kind}, flags {flags} is unknown", "known is 1, 1, 0")
    return Packet(utterance, take, seq, first_sample, np.frombuffer(data, "<i2", offset=_HEADER.size).astype(np.int16))
