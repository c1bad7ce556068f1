// SPDX-License-Identifier: Apache-2.0
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.libripc.Message;
import org.libripc.Ripc;
import org.libripc.Service;
import org.libripc.ServiceId;

/**
 * A named service that replies to short messages. Run {@code Echo server} in one terminal and
 * {@code Echo client hello bye} in another. The word "bye" ends the server.
 */
public final class Echo {
  private static final String NAME = "java-echo";

  private Echo() {}

  /** Runs the server or the client. */
  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length == 1 && arguments[0].equals("server")) {
      serve();
    } else if (arguments.length > 1 && arguments[0].equals("client")) {
      ask(arguments);
    } else {
      System.err.println("usage: Echo server | Echo client WORD...");
      System.exit(2);
    }
  }

  private static void serve() throws InterruptedException {
    try (Ripc ripc = Ripc.open();
        Service service = ripc.service().name(NAME).register()) {
      System.out.println("Echo: serving");
      String word;
      int count = 0;
      do {
        try (Message message = service.receive()) {
          word = StandardCharsets.UTF_8.decode(message.item(0)).toString();
          service.reply(message, message.item(0));
          ++count;
        }
      } while (!word.equals("bye"));
      System.out.println("Echo: sent back " + count + " words");
    }
  }

  private static void ask(String[] words) throws InterruptedException {
    ServiceId server = ServiceId.ofName(NAME);
    try (Ripc ripc = Ripc.open();
        Service service = ripc.register()) {
      for (int index = 1; index < words.length; ++index) {
        service.send(server, ByteBuffer.wrap(words[index].getBytes(StandardCharsets.UTF_8)));
        try (Message answer = service.receive(10, TimeUnit.SECONDS)) {
          if (answer == null) throw new IllegalStateException("no answer within 10 seconds");
          System.out.println(
              "Echo: " + words[index] + " -> " + StandardCharsets.UTF_8.decode(answer.item(0)));
        }
      }
    }
  }
}
