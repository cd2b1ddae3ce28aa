// expect: nack
export default () => {
  for (let text = "a"; ; ) text += text;
};
