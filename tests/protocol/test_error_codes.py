"""Error codes and exceptions."""

import importlib.util
import warnings

from protocol.errors import DecodeError, ErrorCode, KafkaError


def test_codes_are_those_of_kafka_python() -> None:
    assert importlib.util.find_spec("kafka")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import errors
    theirs = {
        cls.errno: cls.__name__
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, errors.BrokerResponseError) and cls.errno is not None
    }
    ours = {code.value for code in ErrorCode}
    assert set(theirs) - ours == set()
    assert set(range(-1, 134)) == ours


def test_a_kafka_error_carries_code_and_sentence() -> None:
    error = KafkaError(ErrorCode.POLICY_VIOLATION, "topics are read-only")
    assert error.code == 44
    assert error.message == "topics are read-only"
    assert str(error) == "POLICY_VIOLATION: topics are read-only"
    assert str(KafkaError(ErrorCode.NONE)) == "NONE"


def test_a_decode_error_is_a_value_error() -> None:
    assert issubclass(DecodeError, ValueError)
