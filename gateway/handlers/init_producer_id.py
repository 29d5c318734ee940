"""InitProducerId: granted to anyone, so that a producer gets as far as the refusal of its Produce."""

import secrets

from gateway.context import Context
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    """Give a producer id. Nothing can be produced with it, so none is remembered."""
    return InitProducerIdResponse(producer_id=secrets.randbits(62), producer_epoch=0)
