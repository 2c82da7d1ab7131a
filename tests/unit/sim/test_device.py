"""The timing model, driven with a clock of its own."""


def test_a_tenant_alone_takes_the_time_of_its_work(model):
    model.join(0)
    end = model.submit(0, now=1_000, work=700)
    assert model.time_at(0, end) == 1_700
    model.advance(5_000)
    assert model.time_at(0, end) == 1_700


def test_work_on_one_stream_is_done_in_order(model):
    model.join(0)
    first = model.submit(0, now=1_000, work=300)
    second = model.submit(0, now=1_100, work=400, after=first)
    assert [model.time_at(0, first), model.time_at(0, second)] == [1_300, 1_700]


def test_work_on_two_streams_overlaps(model):
    model.join(0)
    first = model.submit(0, now=1_000, work=300)
    second = model.submit(0, now=1_000, work=300)
    assert [model.time_at(0, first), model.time_at(0, second)] == [1_300, 1_300]


def test_two_tenants_slow_each_other_by_the_declared_factor(model):
    model.join(0, burden=1.5)
    model.join(1, burden=1.5)
    ends = [model.submit(tenant, now=0, work=1_000) for tenant in (0, 1)]
    assert [model.time_at(t, end) for t, end in enumerate(ends)] == [1_500, 1_500]
    model.advance(10_000)
    assert [model.time_at(t, end) for t, end in enumerate(ends)] == [1_500, 1_500]


def test_who_came_later_slows_work_already_queued(model):
    model.join(0, burden=1.5)
    model.join(1, burden=2.0)
    end = model.submit(0, now=0, work=1_000)
    model.submit(1, now=400, work=10_000)
    # 400 done alone, the other 600 at half speed
    assert model.time_at(0, end) == 1_600
    model.advance(100_000)
    assert model.time_at(0, end) == 1_600


def test_a_tenant_that_falls_idle_slows_nobody(model):
    model.join(0)
    model.join(1)
    short = model.submit(1, now=0, work=100)
    long = model.submit(0, now=0, work=1_000)
    # both at 1/1.5 until 150; then 900 left at full speed
    assert model.time_at(1, short) == 150
    assert model.time_at(0, long) == 1_050
    model.advance(100_000)
    assert model.time_at(0, long) == 1_050


def test_burdens_add_up(model):
    for tenant, burden in enumerate((1.25, 1.5, 2.0)):
        model.join(tenant, burden)
    ends = [model.submit(tenant, now=0, work=1_000_000) for tenant in range(3)]
    model.advance(500_000)
    done = [model.submit(tenant, now=500_000, work=0) for tenant in range(3)]
    assert done == [500_000 / 2.5, 500_000 / 2.25, 500_000 / 1.75]
    assert all(end == 1_000_000 for end in ends)


def test_idle_time_is_not_counted_as_work(model):
    model.join(0)
    first = model.submit(0, now=0, work=100)
    second = model.submit(0, now=10_000, work=100)
    assert [model.time_at(0, first), model.time_at(0, second)] == [100, 10_100]
    model.advance(20_000)
    assert [model.time_at(0, first), model.time_at(0, second)] == [100, 10_100]


def test_a_tenant_that_waits_for_a_peer_stays_on_the_device_until_it_leaves(model):
    model.join(0)
    model.join(1)
    model.wait_for_ever(1, now=0)
    end = model.submit(0, now=0, work=1_000)
    assert model.time_at(0, end) == 1_500
    model.leave(1, now=600)
    # 400 done by 600, the rest at full speed
    assert model.time_at(0, end) == 1_200


def test_the_past_is_exact_however_often_a_neighbour_comes_and_goes(model):
    model.join(0)
    model.join(1, burden=2.0)
    end = model.submit(0, now=0, work=1_000_000)
    for burst in range(101):
        model.submit(1, now=burst * 1_000, work=100)
    # each burst runs at 1/1.5 and so lasts 150, in which 75 of the victim's work is done
    assert model.time_at(0, end) == 1_000_000 + 101 * 75
    model.advance(10_000_000)
    assert model.time_at(0, end) == 1_000_000 + 101 * 75


def test_the_clock_never_runs_backwards(model):
    model.join(0)
    model.wait_for_ever(0, now=0)
    model.advance(1_000)
    # what it waited for ended at 400, but nobody looked until now
    model.drain(0, work=400)
    model.advance(2_000)
    end = model.submit(0, now=3_000, work=100)
    assert end == 1_100
    assert [model.time_at(0, 400), model.time_at(0, end)] == [400, 3_100]


def test_tenants_that_take_turns_run_one_after_the_other(model):
    model.take_turns(300)
    model.join(0)
    model.join(1)
    ends = [model.submit(tenant, now=0, work=1_000) for tenant in (0, 1)]
    # 0-300 is of the first, 300-600 of the second, ..., 1,800-1,900 of the first
    assert [model.time_at(t, end) for t, end in enumerate(ends)] == [1_900, 2_000]
    model.advance(10_000)
    assert [model.time_at(t, end) for t, end in enumerate(ends)] == [1_900, 2_000]
    assert [model.share(t) for t in (0, 1)] == [1_000, 1_000]


def test_who_comes_while_another_runs_waits_for_its_turn(model):
    model.take_turns(300)
    model.join(0)
    model.join(1)
    long = model.submit(0, now=0, work=1_000)
    short = model.submit(1, now=400, work=50)
    # a turn begins when there is somebody to take turns with
    assert [model.time_at(0, long), model.time_at(1, short)] == [1_050, 750]
    model.advance(10_000)
    assert [model.time_at(0, long), model.time_at(1, short)] == [1_050, 750]
    assert [model.share(t) for t in (0, 1)] == [1_000, 50]


def test_what_turns_are_to_come_is_what_comes(model):
    model.take_turns(300)
    wanted = (12_345, 700, 4_000, 9_999)
    for tenant in range(4):
        model.join(tenant)
    ends = [model.submit(tenant, now=100, work=work) for tenant, work in enumerate(wanted)]
    told = [model.time_at(tenant, end) for tenant, end in enumerate(ends)]
    assert max(told) == 100 + sum(wanted)
    model.advance(100_000)
    assert [model.time_at(tenant, end) for tenant, end in enumerate(ends)] == told


def test_a_slot_is_divided_by_work_if_there_is_more_than_its_time(model):
    slot = 100_000_000
    model.join(0, burden=1.25)
    model.join(1, burden=1.25)
    model.submit(0, now=0, work=0.8 * slot)
    model.submit(1, now=0, work=0.4 * slot)
    # Together until 0.5, then the first alone until 0.9; they work 1.2 of the slot.
    model.advance(3 * slot)
    assert [round(model.share(t)) for t in (0, 1)] == [66_666_667, 33_333_333]
