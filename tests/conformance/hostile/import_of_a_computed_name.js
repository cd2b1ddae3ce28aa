// expect: nack
export default () => import("/etc/" + "passwd");
