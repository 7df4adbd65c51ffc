"""Adds the static program to a wheel, and names the platforms on which it runs."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramHook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["force_include"][os.environ["WHEEL_PROGRAM"]] = "fastreplay/bin/fastreplay"
        build_data["tag"] = "py3-none-" + os.environ["WHEEL_PLATFORM"]
        build_data["pure_python"] = False
