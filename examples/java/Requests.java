// SPDX-License-Identifier: Apache-2.0
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.util.concurrent.TimeUnit;
import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.ReturnBuffer;
import org.libripc.Ripc;
import org.libripc.RipcSelector;
import org.libripc.Service;
import org.libripc.Ticket;

/**
 * Two services, and a selector that waits for both in one thread. A request says where to write its
 * answer, and a ticket completes when the answer is there. Everything runs in one process: {@code
 * Requests}.
 */
public final class Requests {
  private static final int SQUARES = 100_000;

  private Requests() {}

  /** Runs the example. */
  public static void main(String[] arguments) throws InterruptedException {
    try (Ripc ripc = Ripc.open();
        Service client = ripc.register();
        Service squares = ripc.register();
        RipcSelector selector = RipcSelector.open();
        RegisteredBuffer memory = ripc.lease(SQUARES * Integer.BYTES)) {
      selector.register(client, null);
      selector.register(squares, null);
      client.send(squares.id(), new Outgoing().tag(SQUARES).attach(new ReturnBuffer(memory)));
      Ticket written = null;
      boolean answered = false;
      while (!answered) {
        for (RipcSelector.Key key : selector.select(10, TimeUnit.SECONDS)) {
          try (Message message = key.service().poll()) {
            if (message == null) continue;
            if (key.service() == squares) {
              written = answer(ripc, squares, message);
            } else {
              IntBuffer result = message.item(0).asIntBuffer();
              int last = result.get(result.limit() - 1);
              System.out.println(
                  "Requests: "
                      + result.limit()
                      + " squares in the return buffer, the last is "
                      + last);
              answered = true;
            }
          }
        }
      }
      written.join();
      System.out.println("Requests: the ticket of the answer is complete");
    }
  }

  private static Ticket answer(Ripc ripc, Service service, Message request) {
    // Releases the memory before the ticket is complete. Nothing is borrowed, so the memory is free
    // again once reply() has returned.
    try (RegisteredBuffer memory = ripc.lease(request.tag() * Integer.BYTES)) {
      ByteBuffer bytes = memory.buffer();
      for (int number = 0; number < request.tag(); ++number)
        bytes.putInt((number % 1000) * (number % 1000));
      return service.reply(request, new Outgoing().addReturn(bytes.flip(), 0));
    }
  }
}
