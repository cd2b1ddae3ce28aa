// Posts its payload to a server and settles by the response; `./dev bench` runs it.

import { http, job, type Verdict } from "duebox";

export const payload = "text";

export default async function handle(body: string): Promise<Verdict> {
  const response = await http.post(job.config("url"), body);
  return response.verdict();
}
