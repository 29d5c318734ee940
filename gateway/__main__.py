"""`python -m gateway`: the gateway process, as `tidegate gateway` and the supervisor start it."""

import argparse
import asyncio
import gc
import json
import logging
import sys
from pathlib import Path

import uvloop

from capture.log import LogError
from capture.log.file_limit import raise_file_limit
from gateway.config import Address, Config, ConfigError, GatewayConfig, LogConfig
from gateway.log_lines import configure
from gateway.server import Gateway, StartError, run
from gateway.worker_process import HELD

log = logging.getLogger("gateway")


def main() -> int:
    """Serve until SIGTERM. The exit code: 0 after that, 1 when it could not start, 2 for wrong arguments."""
    arguments = sys.argv[1:]
    if arguments == [HELD]:
        # Preloaded by the supervisor: everything is imported, and the arguments come now, or never.
        line = sys.stdin.readline()
        if not line:
            return 0
        arguments = json.loads(line)
    try:
        config = _config(arguments)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    configure()
    raise_file_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(config, _announce))
    except (StartError, LogError, OSError, ValueError) as error:
        log.error("the gateway cannot start", extra={"error": str(error)})
        return 1
    return 0


def _config(arguments: list[str]) -> Config:
    defaults = GatewayConfig()
    parser = argparse.ArgumentParser(prog="python -m gateway", description=__doc__)
    parser.add_argument("--data", type=Path, default=LogConfig().data, metavar="DIR")
    parser.add_argument("--kafka", type=Address.parse, default=defaults.kafka, metavar="HOST:PORT")
    parser.add_argument("--registry", type=Address.parse, default=defaults.registry, metavar="HOST:PORT")
    parser.add_argument("--admin", type=Address.parse, default=defaults.admin, metavar="HOST:PORT")
    parser.add_argument("--advertised", type=Address.parse, default=None, metavar="HOST:PORT")
    given = parser.parse_args(arguments)
    return Config(
        log=LogConfig(data=given.data),
        gateway=GatewayConfig(
            kafka=given.kafka, registry=given.registry, admin=given.admin, advertised=given.advertised
        ),
    )


def _announce(gateway: Gateway) -> None:
    """Tell the supervisor (or whoever reads standard output) where we answer."""
    # What was made until now lives as long as the process; the collector need not look at it again.
    gc.collect()
    gc.freeze()
    addresses = {"kafka": gateway.kafka, "registry": gateway.registry, "admin": gateway.admin}
    sys.stdout.write(json.dumps({"ready": True} | {name: str(at) for name, at in addresses.items()}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
