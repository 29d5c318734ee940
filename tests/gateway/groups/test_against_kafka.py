"""The same frames to Apache Kafka and to the gateway: what a group's members are told must be the same.

Each scenario is played to both; member ids are numbered in the order in which they appear, and all else of
every response, in every version asked, is compared.
"""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.gateway.groups.kafka_broker import kafka_broker
from tests.gateway.groups.kafka_peer import (
    METADATA,
    STRANGER,
    TOPIC,
    Peer,
    beat_of,
    commit_of,
    join_of,
    leave_of,
    pair,
    stable,
    sync_of,
)
from tests.gateway.groups.test_group_traps import GroupGateway


@pytest.fixture(scope="module")
def gateway() -> Iterator[GroupGateway]:
    with GroupGateway(initial_rebalance_delay_ms=0) as service:
        service.topic(TOPIC, partitions=2)
        yield service


@pytest.fixture(scope="module")
def kafka() -> Iterator[tuple[str, int]]:
    with kafka_broker() as address:
        admin = AdminClient({"bootstrap.servers": f"{address[0]}:{address[1]}"})
        admin.create_topics([NewTopic(TOPIC, num_partitions=2)])[TOPIC].result(20)
        peer = Peer("wait", address)
        ready = FindCoordinatorRequest(coordinator_keys=["g"])
        peer.until("a", ready, 4, lambda answer: not answer.coordinators[0].error_code)
        commit = commit_of("warm up", 1)
        peer.until("a", commit, 8, lambda answer: not answer.topics[0].partitions[0].error_code)
        peer.close()
        yield address


Scenario = Callable[[Peer], None]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


@scenario
def joins_in_every_version(peer: Peer) -> None:
    for version in range(10):
        group = f"versions-{version}"
        member = stable(peer, "a", group, version)
        for sync_version in range(6):
            peer.ask("a", sync_of(group, 1, member), sync_version)
        for beat_version in range(5):
            peer.ask("a", beat_of(group, 1, member), beat_version)
        if version % 2:
            peer.ask("a", LeaveGroupRequest(group_id=group, member_id=member), version % 3)
        else:
            peer.ask("a", leave_of(group, (member, None)), 3 + version % 3)


@scenario
def refusals_of_joins(peer: Peer) -> None:
    for version in (0, 4, 5, 7, 9):
        peer.ask("a", join_of("refused", session_ms=99), version)
        peer.ask("a", join_of("refused", session_ms=1_800_001), version)
        peer.ask("a", join_of(""), version)
        peer.ask("a", join_of("never", "raw-left-over"), version)
    stable(peer, "a", "refused")
    for version in (0, 4, 5, 7, 9):
        peer.ask("a", join_of("refused", "raw-left-over"), version)
        peer.ask("a", join_of("refused", protocols=[("other", b"")]), version)
        peer.ask("a", join_of("refused", protocol_type="connect"), version)
        peer.ask("a", join_of("refused", protocols=[]), version)
        peer.ask("a", join_of("empty", protocols=[]), version)
        peer.ask("a", join_of("empty", protocol_type=""), version)
    for instance in ("one", "two"):
        peer.ask("a", join_of("refused", "raw-left-over", group_instance_id=instance), 9)


@scenario
def refusals_of_syncs_and_heartbeats(peer: Peer) -> None:
    member = stable(peer, "a", "strict")
    for version in range(6):
        peer.ask("a", sync_of("strict", 2, member), version)
        peer.ask("a", sync_of("strict", 1, "raw-other"), version)
        peer.ask("a", sync_of("never", 1, member), version)
        peer.ask("a", sync_of("", 1, member), version)
    for version in (4, 5):
        peer.ask("a", sync_of("strict", 1, member, protocol_name=None), version)
        peer.ask("a", sync_of("", 1, member, protocol_type=None), version)
    peer.ask("a", sync_of("strict", 1, member, protocol_name="other"), 5)
    peer.ask("a", sync_of("strict", 1, member, protocol_type="connect"), 5)
    peer.ask("a", sync_of("strict", 1, member, protocol_type="consumer", protocol_name="range"), 5)
    peer.ask("a", sync_of("strict", 1, member, group_instance_id="nobody"), 5)
    for version in range(5):
        peer.ask("a", beat_of("strict", 0, member), version)
        peer.ask("a", beat_of("strict", 1, "raw-other"), version)
        peer.ask("a", beat_of("never", 1, member), version)
        peer.ask("a", beat_of("", 1, member), version)
    peer.ask("a", beat_of("strict", 1, member, group_instance_id="nobody"), 4)


@scenario
def two_members_and_a_leader_that_leaves(peer: Peer) -> None:
    first, second = pair(peer, "pair")
    peer.ask("a", beat_of("pair", 2, first), 4)
    peer.ask("b", join_of("pair", second), 9)  # a follower's join changes nothing
    peer.ask("b", sync_of("pair", 2, second), 5)
    peer.ask("a", leave_of("pair", (first, None), ("raw-other", None)), 5)
    peer.ask("b", beat_of("pair", 2, second), 4)
    peer.ask("b", sync_of("pair", 2, second), 5)
    joined = peer.ask("b", join_of("pair", second), 9)
    peer.ask("b", beat_of("pair", joined.generation_id, second), 4)
    peer.ask("b", join_of("pair", second), 9)  # lost answer
    peer.ask("b", sync_of("pair", joined.generation_id, second, assignments={second: b"x"}), 5)
    peer.ask("b", leave_of("pair", (second, None)), 5)
    peer.ask("b", leave_of("pair", (second, None)), 5)


@scenario
def changed_metadata_and_the_leaders_join_rebalance(peer: Peer) -> None:
    first, second = pair(peer, "changed")
    other = [("range", METADATA + b"x")]
    peer.send("b", join_of("changed", second, protocols=other), 9)
    peer.until("a", beat_of("changed", 2, first), 4, lambda answer: answer.error_code == 27)
    peer.ask("a", join_of("changed", first), 9)
    peer.receive("b")
    peer.send("b", sync_of("changed", 3, second), 5)
    peer.ask("a", sync_of("changed", 3, first, assignments={second: b"1"}), 5)
    peer.receive("b")
    peer.send("a", join_of("changed", first), 9)
    peer.until("b", beat_of("changed", 3, second), 4, lambda answer: answer.error_code == 27)
    peer.ask("b", commit_of("changed", 5, 3, second), 9)
    peer.ask("b", join_of("changed", second, protocols=other), 9)
    peer.receive("a")


@scenario
def a_join_while_syncs_are_parked(peer: Peer) -> None:
    first = stable(peer, "a", "parked")
    second = peer.ask("b", join_of("parked"), 9).member_id
    peer.send("b", join_of("parked", second), 9)
    peer.until("a", beat_of("parked", 1, first), 4, lambda answer: answer.error_code == 27)
    peer.ask("a", join_of("parked", first), 9)
    peer.receive("b")
    peer.send("b", sync_of("parked", 2, second), 5)
    time.sleep(0.05)
    third = peer.ask("c", join_of("parked"), 9).member_id
    peer.send("c", join_of("parked", third), 9)
    peer.receive("b")
    peer.ask("a", sync_of("parked", 2, first, assignments={}), 5)


@scenario
def protocols_are_voted_for(peer: Peer) -> None:
    ab, ba = [("a", b"1"), ("b", b"1"), ("c", b"1")], [("b", b"2"), ("a", b"2")]
    first = stable(peer, "a", "vote", protocols=ab)
    for client in ("b", "c"):
        given = peer.ask(client, join_of("vote", protocols=ba), 9).member_id
        peer.send(client, join_of("vote", given, protocols=ba), 9)
        time.sleep(0.1)
    peer.ask("a", join_of("vote", first, protocols=ab), 9)
    peer.receive("b")
    peer.receive("c")
    peer.ask("d", join_of("vote", protocols=[("c", b"")]), 9)


@scenario
def static_members(peer: Peer) -> None:
    first = peer.ask("a", join_of("static", group_instance_id="one"), 9).member_id
    peer.ask("a", sync_of("static", 1, first, group_instance_id="one", assignments={first: b"0"}), 5)
    peer.send("b", join_of("static", group_instance_id="two"), 9)
    peer.until(
        "a", beat_of("static", 1, first, group_instance_id="one"), 4, lambda answer: answer.error_code == 27
    )
    peer.ask("a", join_of("static", first, group_instance_id="one"), 9)
    second = peer.receive("b").member_id
    peer.send("b", sync_of("static", 2, second, group_instance_id="two"), 5)
    peer.ask(
        "a",
        sync_of("static", 2, first, group_instance_id="one", assignments={first: b"0", second: b"1"}),
        5,
    )
    peer.receive("b")
    for version in (5, 7, 8, 9):
        for client, instance, old in (("b", "two", second), ("a", "one", first)):
            new = peer.ask(client, join_of("static", group_instance_id=instance), version).member_id
            peer.ask(client, sync_of("static", 2, new, group_instance_id=instance), 5)
            peer.ask(client, beat_of("static", 2, new, group_instance_id=instance), 4)
            peer.ask(client, beat_of("static", 2, old, group_instance_id=instance), 4)
            peer.ask(client, beat_of("static", 2, old), 4)
            peer.ask(client, sync_of("static", 2, old, group_instance_id=instance), 5)
            peer.ask(client, join_of("static", old, group_instance_id=instance), version)
            peer.ask(client, commit_of("static", 1, 2, old, group_instance_id=instance), 9)
            peer.ask(client, commit_of("static", 2, 2, new, group_instance_id=instance), 9)
            peer.ask(client, leave_of("static", (old, instance)), 5)
            if instance == "one":
                first = new
            else:
                second = new
    peer.ask("c", leave_of("static", ("", "two"), ("", "nobody"), ("", None)), 5)
    peer.ask("b", beat_of("static", 2, second, group_instance_id="two"), 4)
    peer.ask("a", beat_of("static", 2, first, group_instance_id="one"), 4)


@scenario
def a_static_member_that_changes_the_protocol(peer: Peer) -> None:
    both = [("a", b""), ("b", b"")]
    first = peer.ask("a", join_of("switch", group_instance_id="one", protocols=both), 9).member_id
    peer.ask("a", sync_of("switch", 1, first, group_instance_id="one", protocol_name="a"), 5)
    peer.ask("a", join_of("switch", group_instance_id="one", protocols=[("b", b"")]), 9)
    peer.ask("a", join_of("switch", group_instance_id="one", protocols=[("b", b"")]), 9)


@scenario
def sessions_end(peer: Peer) -> None:
    member = stable(peer, "a", "short", session_ms=200)
    time.sleep(0.6)
    peer.ask("a", beat_of("short", 1, member), 4)
    peer.ask("a", commit_of("short", 1, 1, member), 9)
    peer.ask("a", commit_of("short", 2), 9)
    peer.ask("a", DescribeGroupsRequest(groups=["short"]), 5)
    given = peer.ask("b", join_of("short", session_ms=200), 9).member_id
    time.sleep(0.6)
    peer.ask("b", join_of("short", given, session_ms=200), 9)
    first, second = pair(peer, "ends", session_ms=1_000, rebalance_ms=5_000)
    for _ in range(7):
        time.sleep(0.2)
        noted = len(peer.transcript)
        peer.ask("b", beat_of("ends", 2, second), 4)
        del peer.transcript[noted:]
    peer.ask("b", beat_of("ends", 2, second), 4)
    peer.ask("b", join_of("ends", second, session_ms=1_000), 9)
    peer.ask("a", beat_of("ends", 2, first), 4)


@scenario
def the_rebalance_timeout_drops_who_does_not_come(peer: Peer) -> None:
    first = stable(peer, "a", "slow", rebalance_ms=400)
    second = peer.ask("b", join_of("slow", rebalance_ms=400), 9).member_id
    peer.send("b", join_of("slow", second, rebalance_ms=400), 9)
    peer.receive("b")
    peer.ask("a", beat_of("slow", 1, first), 4)
    time.sleep(1.0)  # no SyncGroup comes: the member is dropped as well
    peer.ask("b", beat_of("slow", 2, second), 4)
    peer.ask("b", DescribeGroupsRequest(groups=["slow"]), 5)


@scenario
def commits_and_fetches(peer: Peer) -> None:
    for version in range(2, 10):
        peer.ask("a", commit_of("offsets", version, metadata=None if version == 3 else "note"), version)
        peer.ask("a", commit_of("offsets", 9, topic="no.such.topic"), version)
        peer.ask("a", commit_of("offsets", 9, partition=7), version)
        peer.ask("a", commit_of("offsets", 9, metadata="x" * 4097), version)
        peer.ask("a", commit_of("offsets", 9, generation=3, member_id="raw-other"), version)
        if version < 9:  # then Kafka says GROUP_ID_NOT_FOUND, at which a member of before a restart would die
            peer.ask("a", commit_of("never", 9, generation=3, member_id="raw-other"), version)
        peer.ask("a", commit_of("", version), version)
    peer.ask("a", commit_of("offsets", 10, topic_id=peer.topic_id), 10)
    peer.ask("a", commit_of("offsets", 11, topic_id=STRANGER), 10)
    peer.ask("a", commit_of("offsets", 12, topic_id=peer.topic_id, partition=9), 10)
    for version in range(1, 8):
        for group in ("offsets", "", "never"):
            topics = [
                OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1, 9]),
                OffsetFetchRequestTopic(name="no.such.topic", partition_indexes=[0]),
            ]
            peer.ask("a", OffsetFetchRequest(group_id=group, topics=topics), version)
            if version >= 2:
                peer.ask("a", OffsetFetchRequest(group_id=group, topics=None), version)
            peer.ask("a", OffsetFetchRequest(group_id=group, topics=[]), version)
    for version in (8, 9, 10):
        named = [OffsetFetchRequestTopics(name=TOPIC, topic_id=peer.topic_id, partition_indexes=[0, 1, 9])]
        strange = [OffsetFetchRequestTopics(name="none", topic_id=STRANGER, partition_indexes=[0])]
        for topics in (named, strange, named + strange, None, []):
            groups = [OffsetFetchRequestGroup(group_id=one, topics=topics) for one in ("offsets", "never")]
            peer.ask("a", OffsetFetchRequest(groups=groups, require_stable=version == 9), version)


@scenario
def commits_of_members(peer: Peer) -> None:
    member = stable(peer, "a", "member")
    for version in (2, 5, 7, 9):
        peer.ask("a", commit_of("member", 1, 1, member), version)
        peer.ask("a", commit_of("member", 2, 2, member), version)
        peer.ask("a", commit_of("member", 3, 1, "raw-other"), version)
        peer.ask("a", commit_of("member", 4), version)
        peer.ask("a", commit_of("member", 5, -1, member), version)
        peer.ask("a", commit_of("member", 6, 1, ""), version)
    peer.ask("a", commit_of("member", 7, -1, "", group_instance_id="nobody"), 9)
    second = peer.ask("b", join_of("member"), 9).member_id
    peer.send("b", join_of("member", second), 9)
    peer.until("a", beat_of("member", 1, member), 4, lambda answer: answer.error_code == 27)
    peer.ask("a", commit_of("member", 8, 1, member), 9)
    peer.ask("a", commit_of("member", 9, 1, second), 9)
    peer.ask("a", join_of("member", member), 9)
    peer.receive("b")
    peer.ask("a", commit_of("member", 10, 1, member), 9)
    peer.ask("a", commit_of("member", 11, 2, member), 9)


@scenario
def administration(peer: Peer) -> None:
    member = stable(peer, "a", "admin")
    peer.ask("a", commit_of("simple", 5), 9)
    left = stable(peer, "b", "left")
    peer.ask("b", leave_of("left", (left, None)), 5)
    for version in range(7):
        peer.ask("a", DescribeGroupsRequest(groups=["admin", "simple", "nobody", "left", ""]), version)
    for version in range(6):
        answer = peer.ask("a", ListGroupsRequest(), version)
        mine = [one for one in peer.transcript.pop()[1]["groups"] if one["group_id"] in ("admin", "simple")]
        peer.transcript.append(sorted(mine, key=lambda one: str(one["group_id"])))
        assert len(answer.groups) >= 2
    for states, types in (
        (["Stable"], []),
        (["sTaBlE"], []),
        (["Dead"], []),
        (["nonsense"], []),
        ([], ["classic"]),
        ([], ["CLASSIC", "consumer"]),
        ([], ["consumer"]),
        (["Empty"], ["share"]),
    ):
        peer.ask("a", ListGroupsRequest(states_filter=states, types_filter=types), 5)
        groups = {one["group_id"] for one in peer.transcript.pop()[1]["groups"]}
        peer.transcript.append(sorted(groups & {"admin", "simple"}))
    for version in range(3):
        peer.ask("a", DeleteGroupsRequest(groups_names=["admin"]), version)
        peer.ask("a", DeleteGroupsRequest(groups_names=["nobody"]), version)
        peer.ask("a", DeleteGroupsRequest(groups_names=[]), version)
    peer.ask("a", DeleteGroupsRequest(groups_names=["simple"]), 2)
    peer.ask("a", DeleteGroupsRequest(groups_names=["simple"]), 2)
    peer.ask("a", DescribeGroupsRequest(groups=["simple"]), 6)
    peer.ask("a", LeaveGroupRequest(group_id="admin", member_id=member), 1)
    peer.ask("a", DeleteGroupsRequest(groups_names=["admin"]), 2)
    for version in range(6):
        peer.ask(
            "a",
            leave_of("never", ("raw-x", None))
            if version >= 3
            else LeaveGroupRequest(group_id="never", member_id="raw-x"),
            version,
        )
        peer.ask("a", leave_of("") if version >= 3 else LeaveGroupRequest(group_id=""), version)


@scenario
def coordinators(peer: Peer) -> None:
    for version in range(7):
        keys = {"key": "g"} if version < 4 else {"coordinator_keys": ["g", "h"]}
        answer = peer.ask("a", FindCoordinatorRequest(key_type=0, **keys), version)
        noted = peer.transcript.pop()
        peer.transcript.append(repr(noted).replace(str(peer.address[1]), "PORT"))
        assert answer
        if version >= 1:
            peer.ask("a", FindCoordinatorRequest(key_type=9, **keys), version)


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
def test_trap_07_the_gateway_answers_as_kafka_does(
    play: Scenario, gateway: GroupGateway, kafka: tuple[str, int]
) -> None:
    peers = [Peer("kafka", kafka), Peer("gateway", gateway.address)]
    for peer in peers:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        peer.topic_id = peer.ask("metadata", asked, 12).topics[0].topic_id
        peer.transcript.clear()
        try:
            play(peer)
        finally:
            peer.close()
    expected, found = (peer.transcript for peer in peers)
    for number, (of_kafka, of_us) in enumerate(zip(expected, found, strict=True)):
        assert of_us == of_kafka, f"answer {number}"
