"""What `import penstock` shows is what `__all__` says, sorted and explained."""

from types import ModuleType

import pytest

import penstock


def undocumented(name: str, thing: object) -> bool:
    """Return whether a public name has no docstring of its own; a dataclass makes up one from its fields."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else getattr(thing, "__doc__", None)
    return not text or text.startswith(f"{name}(")


def visible(module: ModuleType) -> set[str]:
    """Return the public names of a module; the rooms that importing it loads are no names of its own."""
    return {
        name for name, thing in vars(module).items() if not name.startswith("_") and not isinstance(thing, ModuleType)
    }


def test_all_is_sorted_and_names_each_once() -> None:
    assert penstock.__all__ == sorted(set(penstock.__all__))


def test_all_equals_what_is_visible() -> None:
    assert isinstance(penstock.Outbox, type), "it is there once it was asked for"
    assert set(penstock.__all__) == visible(penstock)


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in penstock.__all__ if undocumented(name, getattr(penstock, name))] == []


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'penstock' has no attribute 'Outbocks'"):
        getattr(penstock, "Outbocks")  # noqa: B009 - a checker of types would see it


def test_a_planted_name_outside_all_is_seen() -> None:
    module = ModuleType("planted")
    vars(module).update(Extra=type("Extra", (), {}), _private=1, room=ModuleType("planted.room"))
    assert visible(module) == {"Extra"}


def test_a_planted_class_without_docstring_is_found() -> None:
    class Parent:
        """Explained."""

    class Child(Parent):
        pass

    assert not undocumented("Parent", Parent)
    assert undocumented("Child", Child)
    assert undocumented("Made", type("Made", (), {"__doc__": "Made(x: int)"}))
