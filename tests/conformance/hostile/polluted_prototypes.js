// expect: nack
// What the SDK uses is replaced. Only this program notices.
import { nack } from "duebox";
Object.prototype.kind = "ack";
Object.prototype.retryAfter = 1;
Array.prototype[Symbol.iterator] = () => { throw new Error("iterated"); };
Array.prototype.map = Array.prototype.filter = Array.prototype.join = () => { throw new Error("joined"); };
String.prototype.split = String.prototype.toWellFormed = () => { throw new Error("split"); };
Promise.prototype.then = () => { throw new Error("then"); };
export default async () => nack("no");
