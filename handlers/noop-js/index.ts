// Acks without looking at the job; `./dev bench` runs it.

export const payload = "bytes";

export default function handle(): void {}
