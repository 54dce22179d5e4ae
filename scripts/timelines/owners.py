"""Which process launched each event of a GPU, in a file that holds several ranks of PyTorch's profiler.

Ids of launches count in each process by itself, and a GPU's events carry the GPU's number in place of the process. So an event may
belong to each process that has a launch of its id. Events of one number of a GPU are a group. Most groups have one process: the one
that leaves the fewest events without a launch before them. If a merge gave GPUs of two hosts one number, a group has several processes:
some of its ids are launches of one process only, or most ids that several processes have occur several times. Then the launches
decide event by event. A process has one event of an id, if the group does not have more events of it than processes. Its events of one
stream run one after another, in the order of their launches, and none begins before its launch. Of all ways to divide the events, the
one is taken in which GPUs wait least: a GPU begins an event when it is launched and the one before it in its stream is over.
"""
from collections import Counter

SKEW = 10**7  # 10 µs: an event may begin so much before its launch
OVERLAP = 10**6  # 1 µs: events of a stream may overlap by so much
OWN_SHARE = 0.1  # of a group's events that only one process can have launched: the process belongs to the group
MOST_LOOKED_AT = 1000  # events of a group, for how long they wait
LONG_AGO = 10**11  # 100 ms: an event that ended so long before does not tell one way from another
MOST_OPEN = 64  # ids that a way keeps
WIDTH = 16  # ways to divide the events that are followed
ALIKE = 1.001  # the costs of two ways are as good as equal


def owners_of(events, launches, device_of, stream_of):
    """Sets `owner` and `issued` of the events. `launches`: {id: launches}. Returns the devices whose events nothing divided."""
    calls = {launch: _by_process(its) for launch, its in launches.items() if launch >= 0}
    processes = sorted({it.process for its in launches.values() for it in its}, key=str)
    groups = {}
    for it in events:
        groups.setdefault((it.process, device_of(it)), []).append(it)
    votes = _votes(groups, calls) if len(processes) > 1 else {}
    several = {key: members for key, group in groups.items() if len(processes) > 1
               for members in [_members(key, group, calls, votes)] if len(members) > 1}
    undecided = [key[1] for key, members in several.items() if not _divide(groups[key], members, calls, stream_of)]
    alone = [key for key in groups if key not in several]
    for key, owner in _match(groups, alone, processes, calls, stream_of).items():
        for it in groups[key]:
            it.owner, it.issued = owner, _before(calls, it).get(owner)
    return undecided


def _by_process(launches):
    found = {}
    for it in launches:
        found.setdefault(it.process, []).append(it.start)
    for starts in found.values():
        starts.sort()
    return found


def _before(calls, event):
    """{process: the latest launch with the event's id before the event}."""
    found = {}
    for process, starts in calls.get(event.launch, {}).items():
        earlier = [start for start in starts if start <= event.start + SKEW]
        if earlier:
            found[process] = earlier[-1]
    return found


def _votes(groups, calls):
    """{(process, group): ids that say that the process has events there}. Of several processes with an id, the first to launch is the
    first to begin; file order decides between equal times."""
    votes, of_id = Counter(), {}
    for key, group in groups.items():
        for it in group:
            of_id.setdefault(it.launch, []).append((it.start, it.index, key))
    for launch, found in of_id.items():
        its = calls.get(launch, {})
        if len(its) == 1:
            for _, _, key in found:
                votes[next(iter(its)), key] += 1
        elif len(its) == len(found):
            order = sorted(its, key=lambda process: its[process][0])
            for process, (start, _, key) in zip(order, sorted(found, key=lambda it: it[:2])):
                if its[process][0] <= start + SKEW:
                    votes[process, key] += 1
    return votes


def _members(key, group, calls, votes):
    """The processes that share a group."""
    own, times, shared = Counter(), Counter(it.launch for it in group), []
    for it in group:
        found = calls.get(it.launch, {})
        if len(found) == 1:
            own[next(iter(found))] += 1
    for launch, count in times.items():
        if len(calls.get(launch, {})) > 1:
            shared.append(count > 1)
    is_shared = 2 * sum(shared) > len(shared)
    homes = {}
    for (process, at), count in votes.items():
        homes[process] = max(homes.get(process, (0, ())), (count, at), key=lambda it: it[0])
    return sorted({process for process, (_, at) in homes.items() if at == key and (is_shared or own[process])} |
                  {process for process, count in own.items() if count >= OWN_SHARE * len(group)}, key=str)


def _match(groups, keys, processes, calls, stream_of):
    """{group: process} of the groups of one process: with the fewest events that have no launch before them, then, if that can be, with a
    process for each group, then with the least
    sum of squares of their waiting."""
    if len(processes) < 2:
        return dict.fromkeys(keys, processes[0] if processes else None)
    costs = {(key, process): _cost_alone(groups[key], process, calls, stream_of) for key in keys for process in processes}
    match = {key: min(processes, key=lambda process: costs[key, process]) for key in keys}

    def cost():
        chosen = [costs[key, process] for key, process in match.items()]
        return sum(it[0] for it in chosen), len(match) - len(set(match.values())), sum(it[1] for it in chosen)

    is_better, best = True, cost()
    while is_better:
        is_better = False
        for key in keys:
            for process in processes:
                old = dict(match)
                other = next((it for it in keys if match[it] == process), None)
                match[key] = process
                changed = cost()
                if changed >= best and other is not None:
                    match[other] = old[key]
                    changed = cost()
                if changed < best:
                    best, is_better = changed, True
                else:
                    match = old
    return match


def _cost_alone(group, process, calls, stream_of):
    """How many events of the group the process has no launch before, and how long they wait if the group is all of that process."""
    unexplained, way = 0, _Way()
    order = sorted(group, key=lambda it: (it.start, it.index))
    for index, it in enumerate(order):
        before = _before(calls, it)
        unexplained += bool(before) and process not in before
        if index < MOST_LOOKED_AT and process in before:
            way = _step(way, it, stream_of(it), process, before[process], None, 0)
    return unexplained, way.squares


class _Way:
    """One way to divide the events so far."""

    __slots__ = ("broken", "waited", "squares", "ends", "used", "last")

    def __init__(self, broken=0, waited=0, squares=0, ends=None, used=None, last=None):
        self.broken = broken  # rules that the way breaks
        self.waited, self.squares = waited, squares  # the GPUs' waiting, in all, and the sum of its squares: equal waits are likelier
        self.ends = ends or {}  # {(process, stream): end and launch of the event before}
        self.used = used or {}  # {id that has further events: its processes so far}
        self.last = last  # (the last event's process, the link of the event before it)

    @property
    def cost(self):
        return self.broken, self.waited, self.squares

    @property
    def state(self):
        return frozenset(self.ends.items()), frozenset(self.used.items())


def _divide(group, members, calls, stream_of):
    """Sets the owners of a group of several processes. Returns whether the launches decided."""
    order = sorted(group, key=lambda it: (it.start, it.index))
    left = Counter(it.launch for it in group)
    shared = {launch for launch, count in left.items() if 1 < count <= len(calls.get(launch, {}))}
    ways, is_decided, taken = [_Way()], True, {}  # taken: {id: its processes so far}, where all ways agree
    for it in order:
        its = _before(calls, it) or {process: starts[0] for process, starts in calls.get(it.launch, {}).items()}
        options = sorted((process for process in its if process in members), key=lambda process: its[process])
        options = [(process, its[process]) for process in options] or [(process, None) for process in members]
        left[it.launch] -= 1
        its = taken.get(it.launch, frozenset()) if it.launch in shared else None
        ways, is_tie = _best([_step(way, it, stream_of(it), process, launch, its, left[it.launch]) for way in ways for process, launch in options])
        is_decided = is_decided and not is_tie
        if len(ways) == 1 or len(ways[0].used) > MOST_OPEN:
            _agree(ways, taken)
    link = ways[0].last
    if len(ways) > 1 and _are_alike(ways[0], ways[1]):
        is_decided = False
    for it in reversed(order):
        it.owner, link = link
        its = calls.get(it.launch, {})
        it.issued = _before(calls, it).get(it.owner) if it.owner in its else None
    return is_decided


def _step(way, event, stream, process, launch, taken, left):
    """The way with a further event of the process. `taken`: the processes that all ways gave events of its id to; None: a process may have
    several events of the id."""
    broken, waited, squares = way.broken, way.waited, way.squares
    end, before = way.ends.get((process, stream), (None, None))
    if end is not None and event.start < end - OVERLAP:
        broken += 1
    if launch is not None:
        if before is not None and launch < before:
            broken += 1
        free = launch if end is None else max(launch, end)
    else:
        free = event.start - LONG_AGO if end is None else end
    wait = max(0, event.start - free)
    ends = {key: its for key, its in way.ends.items() if its[0] > event.start - LONG_AGO}
    ends[process, stream] = (max(event.end, end or event.end), launch if launch is not None else before)
    used = way.used
    if taken is not None:
        mine = taken | used.get(event.launch, frozenset())
        broken += process in mine
        used = {launch: its for launch, its in used.items() if launch != event.launch}
        if left:
            used[event.launch] = mine | {process}
    return _Way(broken, waited + wait, squares + wait * wait, ends, used, (process, way.last))


def _agree(ways, taken):
    """Moves the ids that all ways divide alike from the ways to `taken`."""
    for launch, its in list(ways[0].used.items()):
        if all(way.used.get(launch) == its for way in ways):
            taken[launch] = its
            for way in ways:
                way.used = {key: value for key, value in way.used.items() if key != launch} if len(ways) > 1 else way.used
    if len(ways) == 1:
        ways[0].used = {}


def _best(ways):
    """The best ways, one for each state, and whether one that was dropped is as good as the best."""
    ways.sort(key=lambda way: way.cost)
    kept, is_tie = {}, False
    for way in ways:
        state = way.state
        if state in kept:
            is_tie = is_tie or _are_alike(ways[0], way)
        elif len(kept) < WIDTH:
            kept[state] = way
        else:
            is_tie = is_tie or _are_alike(ways[0], way)
            break
    return list(kept.values()), is_tie


def _are_alike(best, way):
    return way.broken == best.broken and way.waited <= ALIKE * best.waited
