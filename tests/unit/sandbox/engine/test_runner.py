import asyncio

from sandbox.engine.runner import Runner
from sandbox.engine.schedule import Schedule
from sandbox.engine.text import Plan
from tests.unit.sandbox.engine.test_schedule import Unit


def engine(scale=1e6, observe=lambda step: None):
    return Runner(Schedule(Unit(), 8, 100, 10_000), scale, observe)


def run(scenario, **options):
    async def whole():
        runner = engine(**options)
        driving = asyncio.create_task(runner.run())
        try:
            return await asyncio.wait_for(scenario(runner), 30)
        finally:
            driving.cancel()

    return asyncio.run(whole())


def asked(tokens, prompt=5):
    return (prompt, Plan(tokens, 0, "length"))


def test_every_ticket_gets_exactly_its_tokens():
    async def scenario(runner):
        job = runner.submit([asked(3), asked(40), asked(1)])
        await job.finished()
        return [ticket.visible for ticket in job.tickets]

    assert run(scenario) == [3, 40, 1]


def test_news_shows_each_token_once():
    async def scenario(runner):
        job = runner.submit([asked(10), asked(5)])
        seen = {0: 0, 1: 0}
        while any(ticket.sent < ticket.output_tokens for ticket in job.tickets):
            for ticket in await job.news():
                assert ticket.visible > ticket.sent
                seen[ticket.index] += ticket.visible - ticket.sent
                ticket.sent = ticket.visible
        return seen

    assert run(scenario) == {0: 10, 1: 5}


def test_steps_take_their_simulated_time_divided_by_the_scale():
    async def scenario(runner):
        clock = asyncio.get_running_loop().time
        started = clock()
        await runner.submit([asked(6)]).finished()
        return clock() - started

    # One prefill and five decode steps of a second each, twenty times as fast.
    assert 0.3 <= run(scenario, scale=20) < 3


def test_a_machine_that_falls_behind_hands_out_several_tokens_at_once():
    wakes = 0

    async def scenario(runner):
        nonlocal wakes
        job = runner.submit([asked(2000)])
        while job.tickets[0].sent < 2000:
            (ticket,) = await job.news()
            ticket.sent = ticket.visible
            wakes += 1

    run(scenario)
    assert wakes < 1000


def test_closing_a_job_takes_it_out_of_the_schedule_and_counts_it_once():
    async def scenario(runner):
        job = runner.submit([asked(10**6), asked(10**6)])
        await job.news()
        runner.close(job)
        runner.close(job)
        return runner.schedule.idle, runner.jobs, runner.totals

    idle, jobs, totals = run(scenario, scale=1.0)
    assert idle and not jobs and totals.requests == 1 and totals.prompt_tokens == 10


def test_the_observer_sees_every_step():
    steps = []

    async def scenario(runner):
        await runner.submit([asked(4)]).finished()
        return runner.totals.generated_tokens

    assert run(scenario, observe=steps.append) == 4
    assert [step.is_prefill for step in steps] == [True, False, False, False]


def test_an_idle_engine_starts_again():
    async def scenario(runner):
        await runner.submit([asked(2)]).finished()
        await asyncio.sleep(0)
        await runner.submit([asked(2)]).finished()
        return runner.schedule.idle

    assert run(scenario)


def test_a_ticket_without_tokens_to_give_still_gives_one():
    async def scenario(runner):
        job = runner.submit([asked(0)])
        await job.finished()
        return job.tickets[0].visible

    assert run(scenario) == 1
