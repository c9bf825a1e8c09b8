import errno

import pytest

from blackstart.errors import CheckError
from roles.stand_in import make


def test_what_the_machine_refuses_while_the_sandbox_is_made_is_told_with_its_place():
    with pytest.raises(CheckError, match=r"No space left on device \(/srv/wheel\)") as caught, make.spoken():
        raise OSError(errno.ENOSPC, "No space left on device", "/srv/wheel")
    assert caught.value.remedy
