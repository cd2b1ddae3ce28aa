// The failure classes, their colours and textures.

/** All failure classes. A test compares them with the daemon's list. */
export const CLASSES = ['nack', 'drop', 'trap', 'timeout', 'out_of_memory', 'out_of_fuel', 'stack_overflow', 'exit',
  'bad_verdict', 'crashed', 'expired', 'bad_due', 'bad_options', 'orphan'];

const TONES = ['t-one', 't-two', 't-three', 't-four', 't-five'];

/** The textures of the charts; the first classes have none. */
export const TEXTURES = ['x-striped', 'x-barred'];

/** The colour and texture of a class, the same in every chart and list: the place of the class in the list decides. */
export const toneOf = (name) => {
  const at = Math.max(0, CLASSES.indexOf(name));
  return [TONES[at % TONES.length], TEXTURES[Math.floor(at / TONES.length) - 1]].filter(Boolean).join(' ');
};
