// What every event is to the selected one. Stamps grow along a process, so two indexes per lane tell it of all events.

export class Relations {
  // `document` of /api/relations: per lane `past_to`, `future_from`, and where these are on the axis.
  constructor(document, place) {
    this.id = document.id ?? place.id;
    this.lane = place.lane;
    this.index = place.index;
    this.x = place.x;
    this.lanes = new Map((document.lanes ?? []).map((one) => [one.lane, one]));
  }

  of(event) {
    if (event.lane === this.lane && event.index === this.index) return "selected";
    return this.at(event.lane, event.index);
  }

  at(lane, index) {
    if (lane === this.lane) return index < this.index ? "past" : index > this.index ? "future" : "selected";
    const one = this.lanes.get(lane);
    if (!one) return "concurrent";
    if (one.past_to !== null && index <= one.past_to) return "past";
    if (one.future_from !== null && one.future_from !== undefined && index >= one.future_from) return "future";
    return "concurrent";
  }

  // Whether a lane has anything of its past or future.
  touches(lane) {
    const one = this.lanes.get(lane);
    return lane === this.lane || Boolean(one?.past_to) || (one?.future_from ?? null) !== null;
  }

  // Of a time on a lane, where there are counts instead of events.
  atTime(lane, t) {
    const [past, future] = this.ends(lane);
    if (past !== null && t <= past) return "past";
    if (future !== null && t >= future) return "future";
    return "concurrent";
  }

  // How far the past goes on a lane and where the future begins, as times; null: nowhere.
  ends(lane) {
    const one = this.lanes.get(lane);
    if (lane === this.lane) return [this.x, this.x];
    return [one?.past_x ?? null, one?.future_x ?? null];
  }
}
