// The failure classes and their colours.

/** All failure classes. A test compares them with the daemon's list. */
export const CLASSES = ['nack', 'drop', 'trap', 'timeout', 'out_of_memory', 'out_of_fuel', 'stack_overflow', 'exit',
  'bad_verdict', 'crashed', 'expired', 'bad_due', 'bad_options', 'orphan'];

const TONES = ['t-one', 't-two', 't-three', 't-four', 't-five', 't-six'];

/** The colour of a class, the same in every chart and list: the place of the class in the list decides. */
export const toneOf = (name) => TONES[Math.max(0, CLASSES.indexOf(name)) % TONES.length];
