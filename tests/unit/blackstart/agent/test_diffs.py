from blackstart.agent.diffs import MAX_LINES, describe


def test_text_is_shown_as_a_unified_diff():
    assert describe("/f", b"a\nb\n", b"a\nc\n").splitlines() == [
        "--- /f",
        "+++ /f",
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "+c",
    ]


def test_a_file_that_is_not_there_is_dev_null():
    assert describe("/f", None, b"a\n").splitlines()[:2] == ["--- /dev/null", "+++ /f"]
    assert describe("/f", b"a\n", None).splitlines()[:2] == ["--- /f", "+++ /dev/null"]


def test_a_long_diff_is_cut_and_says_so():
    shown = describe("/f", None, b"line\n" * 1000).splitlines()
    assert len(shown) == MAX_LINES + 1
    assert shown[-1] == "... 803 more lines"


def test_a_diff_that_just_fits_is_whole():
    shown = describe("/f", None, b"line\n" * (MAX_LINES - 3)).splitlines()
    assert len(shown) == MAX_LINES and "more lines" not in shown[-1]


def test_binary_is_shown_by_size_and_hash():
    for content in (b"\xff\xfe", b"text\0text"):
        shown = describe("/f", b"old", content)
        assert shown.startswith("/f: 3 bytes sha256:") and f"-> {len(content)} bytes sha256:" in shown
    assert describe("/f", None, b"\xff").startswith("/f: absent -> 1 bytes")
    assert describe("/f", b"\xff", None).endswith("-> absent")


def test_a_secret_is_never_shown():
    assert describe("/f", b"hunter22", b"hunter23", secret=True) == "/f: content hidden"


def test_characters_survive():
    assert "+ü" in describe("/f", b"", "ü\n".encode())
