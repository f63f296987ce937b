"""The wheel contains a program: its tag names a platform, and no version of Python."""

from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class WithProgram(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class ProgramWheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    version=Path("VERSION").read_text().strip(),
    distclass=WithProgram,
    cmdclass={"bdist_wheel": ProgramWheel},
)
