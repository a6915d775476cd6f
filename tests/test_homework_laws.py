"""Homework 1, 2 and 5: a wrong solution is found, at its task and by the law that it breaks."""

import pytest
from homework_edits import outcomes
from homework_right_laws import RIGHT
from homework_wrong_laws import WRONG

from lab.homework.checking import CHECKS
from lab.homework.tasks import tasks

SETS = "125"
TASKS = [number for number in tasks() if number[0] in SETS]
SEEDS = range(3)


def named(solution):
    return f"{solution.task} {solution.name}"


@pytest.mark.parametrize("solution", WRONG, ids=named)
def test_a_wrong_solution_is_told_which_law_it_breaks(solution):
    module = solution.module()
    for seed in SEEDS:
        found = outcomes(module, solution.task, seed)
        failed = [one.sentence for one in found if one.state == "failed"]
        assert failed, f"seed {seed}: passed {len(found)} checks"
        assert solution.says in failed[0]
        assert "unwritten" not in {one.state for one in found}


@pytest.mark.parametrize("number", TASKS)
def test_the_other_tasks_of_a_wrong_file_stay_green(number):
    solution = next(one for one in WRONG if one.task == number)
    module, file = solution.module(), tasks()[number].file
    others = [one for one in TASKS if tasks()[one].file == file and one != number]
    found = [one for other in others for one in outcomes(module, other, seed=0)]
    assert {one.state for one in found} == {"passed"}
    assert len(found) == sum(len(CHECKS[other]) for other in others) >= 14


@pytest.mark.parametrize("solution", RIGHT, ids=named)
def test_a_right_solution_passes_however_it_is_written(solution):
    module = solution.module()
    for seed in range(10):
        found = outcomes(module, solution.task, seed)
        assert [one for one in found if one.state != "passed"] == []
        assert len(found) == len(CHECKS[solution.task])


def test_there_are_many_of_every_task_and_all_are_different():
    assert len(WRONG) >= 120
    assert {one.task for one in RIGHT} == {one.task for one in WRONG} == set(TASKS)
    assert all(sum(one.task == number for one in WRONG) >= 5 for number in TASKS)
    assert len({named(one) for one in WRONG}) == len({one.source for one in WRONG}) == len(WRONG)


def test_every_check_is_the_first_that_some_wrong_solution_fails():
    """So each is needed, and none stands behind one that sees all that it sees."""
    first = set()
    for solution in WRONG:
        found = outcomes(solution.module(), solution.task, seed=0)
        first.add((solution.task, next(one.check for one in found if one.state == "failed")))
    assert first == {(number, one.name) for number in TASKS for one in CHECKS[number]}
