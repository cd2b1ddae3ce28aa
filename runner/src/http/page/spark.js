// The attempts of a topic in the last ten minutes as small bars, failed ones on top.

import { draw, el, rate, setText } from './dom.js';

const HEIGHT = 26;
const WIDTH = 100;

/** Bars with the current rate. */
export class Spark {
  constructor() {
    this.value = el('span', { class: 'value' });
    this.good = draw('path', { class: 'bar-fill t-acked' });
    this.bad = draw('path', { class: 'bar-fill t-failed' });
    this.svg = draw('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', class: 'spark-bars' }, this.good, this.bad);
    this.node = el('div', { class: 'spark' }, this.value, this.svg);
  }

  /** Shows steps of attempts and failures, and the rate; a rate that is not known is a dash. */
  show(steps, perSecond, recent) {
    setText(this.value, perSecond === null ? '–' : rate(perSecond));
    this.node.classList.toggle('none', !perSecond);
    this.svg.setAttribute('aria-label', `${recent.attempts} attempts in the last ten minutes, ${recent.failed} failed`);
    if (this.steps === steps) return;
    this.steps = steps;
    const most = Math.max(1, ...(steps ?? []).map(([attempts]) => attempts));
    const width = WIDTH / Math.max(1, steps?.length ?? 1);
    const y = (number) => HEIGHT - (number / most) * (HEIGHT - 2);
    let [good, bad] = ['', ''];
    steps?.forEach(([attempts, failed], at) => {
      if (!attempts) return;
      const [x, from] = [(at * width).toFixed(1), Math.min(y(attempts - failed), HEIGHT)];
      if (attempts > failed) good += `M${x} ${HEIGHT}V${from.toFixed(1)}h${(width * 0.8).toFixed(1)}V${HEIGHT}Z`;
      if (failed) bad += `M${x} ${from.toFixed(1)}V${Math.min(y(attempts), from - 2).toFixed(1)}h${(width * 0.8).toFixed(1)}V${from.toFixed(1)}Z`;
    });
    this.good.setAttribute('d', good);
    this.bad.setAttribute('d', bad);
  }
}
