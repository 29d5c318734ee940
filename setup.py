"""Builds the compiled encoder; an install without a C compiler goes on with the generated Python one."""

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
                extra_compile_args=["-O3"],
                optional=True,
            )
        ],
        language_level=3,
    )

setup(ext_modules=extensions)
