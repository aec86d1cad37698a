"""Which records of a partition may have been handed out."""

from penstock.delivery.cursor_state import GoingOut


def test_only_these_records_go_out_of_what_is_not_passed() -> None:
    out = GoingOut.only({12, 15}, base=10)
    assert [offset for offset in range(10, 20) if out.has(offset)] == [12, 15]


def test_a_row_says_the_same_records() -> None:
    out = GoingOut.only({12, 15}, base=10)
    assert GoingOut.stored(out.to, out.bitmap()) == out
