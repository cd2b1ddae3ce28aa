// The page: session, views and refresh. While it is visible it refreshes after an event, or once a second where there
// is not available; less often if responses are slow. It shows an outage and continues by itself after it.

import { Refused, ask, get, post } from './api.js';
import { sayRefused } from './actions.js';
import { BrowsePage } from './browse.js';
import { DaemonsPage, RedisPage } from './daemons.js';
import { el, setText } from './dom.js';
import { FailuresPage } from './failures.js';
import { JobPage } from './job.js';
import { applyTheme, followKeys, nextTheme, showKeys } from './keys.js';
import { Live } from './live.js';
import { SchedulesPage } from './schedules.js';
import { TopicPage } from './topic.js';
import { TopicList } from './topics.js';

const EVERY_MS = 1_000;
const SLOWEST_MS = 10_000;
/** A pause lasts at least four times as long as the last request took. */
const REST = 4;

const place = (id) => document.getElementById(id);

class App {
  constructor() {
    this.session = { scopes: [] };
    this.fails = 0;
    this.wait = null;
    this.next = 0;
    this.live = new Live((job) => this.stirred(job));
  }

  may(scope) {
    return this.session.scopes.includes(scope) || this.session.scopes.includes('admin');
  }

  async start() {
    this.session = await get('/session');
    place('banner').hidden = true;
    const { login, session, name, events } = this.session;
    this.live.isAllowed = Boolean(events);
    place('logout').hidden = !session || login;
    place('who').hidden = !name;
    setText(place('who'), name ?? '');
    if (login) {
      this.show(new Login(this));
      return;
    }
    this.route();
  }

  route() {
    if (this.session.login) return;
    this.show(viewOf(this, location.hash));
    this.refresh();
  }

  show(view) {
    this.view?.close();
    this.view = view;
    document.title = view.title === 'Topics' ? 'Duebox' : `${view.title} · Duebox`;
    for (const dialog of document.querySelectorAll('dialog')) dialog.close();
    this.mark();
    this.live.follow(view.follows ?? null);
    place('main').replaceChildren(view.node);
    window.scrollTo(0, 0);
    view.focus?.();
  }

  /** Shows the views that the session may see, and which one is open. */
  mark() {
    const isIn = !this.session.login && !(this.view instanceof Login);
    place('views').hidden = !isIn;
    for (const link of place('views').children) {
      const scope = link.dataset.scope;
      link.hidden = Boolean(scope) && !this.may(scope);
      const isOpen = link.hash === `#/${location.hash.split('/')[1] ?? ''}` || (link.hash === '#/' && location.hash.startsWith('#/topics'));
      if (isOpen) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
  }

  /** Refreshes now and then periodically. */
  async refresh() {
    clearTimeout(this.wait);
    this.view?.refreshLists?.();
    await this.look();
  }

  /** Something happened, to this job if it is one: looks again, but no sooner than without events. The view of a job
      leaves other jobs alone: its timeline costs Redis more than a count. */
  stirred(job) {
    if (this.view?.onlyJob && job && job !== this.view.onlyJob) return;
    this.isStirred = true;
    if (document.hidden || this.isLooking) return;
    clearTimeout(this.wait);
    this.wait = setTimeout(() => this.look(), Math.max(0, this.next - performance.now()));
  }

  async look() {
    const began = performance.now();
    const { view } = this;
    if (document.hidden || !view) return;
    this.live.follow(view.follows ?? null);
    if (this.isStirred) view.refreshLists?.();
    [this.isStirred, this.isLooking] = [false, true];
    try {
      await (view.refresh ? view.refresh() : undefined);
      if (view === this.view) this.answered();
    } catch (error) {
      if (view === this.view) this.refused(error);
    } finally {
      this.isLooking = false;
    }
    if (view !== this.view || view instanceof Login) return;
    const took = performance.now() - began;
    const rest = this.fails ? Math.min(SLOWEST_MS, EVERY_MS * 2 ** (this.fails - 1)) : Math.min(SLOWEST_MS, took * REST);
    this.next = began + Math.max(EVERY_MS, took + rest);
    const isQuiet = !this.isStirred && !this.fails;
    const pause = Math.max((isQuiet ? this.live.everyMs : EVERY_MS) - took, rest);
    clearTimeout(this.wait);
    this.wait = setTimeout(() => this.look(), pause);
  }

  answered() {
    this.fails = 0;
    place('banner').hidden = true;
    place('live').className = 'live on';
    const [words, more] = this.live.words;
    setText(place('live'), words);
    place('live').title = more;
  }

  refused(error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) {
      this.again();
      return;
    }
    this.fails = Math.min(this.fails + 1, 5);
    const isAway = error.status === 0 || error.kind === 'redis';
    setText(place('banner'), sentences(error.message, isAway ? 'The page retries automatically.' : error.remedy));
    place('banner').hidden = false;
    place('live').className = 'live off';
    setText(place('live'), error.status ? 'refused' : 'away');
    if (error.kind === 'redis') setText(place('live'), 'Redis is away');
  }

  /** Restarts the page after the session ended or began. */
  again() {
    clearTimeout(this.wait);
    return this.start().catch((error) => {
      this.refused(error);
      this.wait = setTimeout(() => this.again(), EVERY_MS * 2);
    });
  }

  async logOut() {
    try {
      await ask('DELETE', '/session');
      await this.again();
    } catch (error) {
      sayRefused(error);
    }
  }
}

/** The view of a link. */
function viewOf(app, hash) {
  const [path, query] = hash.replace(/^#\//, '').split('?');
  const [kind, topic, part, name] = path.split('/').map(decoded);
  if (kind === 'topics' && topic) {
    if (part === 'browse') return new BrowsePage(app, topic, name, new URLSearchParams(query));
    return part === 'jobs' && name ? new JobPage(app, topic, name) : new TopicPage(app, topic);
  }
  const View = { failures: FailuresPage, daemons: DaemonsPage, schedules: SchedulesPage, redis: RedisPage }[kind] ?? TopicList;
  return new View(app);
}

/** A part of a link as text; one that was cut off is taken as it is. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Texts of the daemon joined as sentences. */
function sentences(...texts) {
  const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');
  return texts.filter(Boolean).map(sentence).join(' ');
}

/** The login form. */
class Login {
  constructor(app) {
    this.title = 'Log in';
    this.token = el('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true, spellcheck: 'false' });
    const wrong = el('p', { class: 'wrong', role: 'alert', id: 'wrong' });
    const form = el('form', { class: 'login panel' },
      el('h1', {}, 'Log in'),
      el('p', {}, 'Enter a token made with ', el('code', {}, 'duebox token new'), '. It is sent once and not stored: this browser gets a session for twelve hours.'),
      el('label', {}, 'Token', this.token), wrong,
      el('button', { type: 'submit', class: 'main', id: 'login' }, 'Log in'));
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      try {
        await post('/session', { token: this.token.value });
        this.token.value = '';
        await app.again();
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        wrong.textContent = error.status === 401 ? 'The token is unknown.' : sentences(error.message, error.remedy);
      }
    });
    this.node = form;
  }

  focus() {
    this.token.focus();
  }

  close() {}
}

const app = new App();
applyTheme();
place('theme').addEventListener('click', nextTheme);
place('help').addEventListener('click', showKeys);
place('logout').addEventListener('click', () => app.logOut());
followKeys(() => app.view);
window.addEventListener('hashchange', () => app.route());
document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    clearTimeout(app.wait);
    app.live.close();
  } else if (app.view) app.refresh();
});
app.again();
