"""Builds the compiled encoder; an install without a C compiler goes on with the generated Python one."""

from glob import glob

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:  # pragma: no cover - an install without build isolation and without Cython
    extensions = []
else:
    extensions = cythonize(
        [
            Extension(
                "capture.envelope.encoder",
                ["capture/envelope/encoder.pyx"],
                depends=sorted(glob("capture/envelope/*.pxi")),
                extra_compile_args=["-O3"],
                optional=True,
            )
        ],
        language_level=3,
    )

setup(ext_modules=extensions)
