from importlib.resources import files


def test_the_package_tells_type_checkers_that_it_is_typed() -> None:
    assert files("redrive").joinpath("py.typed").is_file()
