// Acks a job after it has read one field of it; `./dev bench sandbox` runs it.

export default function handle(order: { id: number }): "ack" | "drop" {
  return order.id === 42 ? "ack" : "drop";
}
