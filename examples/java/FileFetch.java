// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.Ripc;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.Status;
import org.libripc.ViewKind;

/**
 * Messages of any size. Run {@code FileFetch server DIRECTORY} in one terminal and {@code FileFetch
 * client FILE OUTPUT} in another. A small file comes in the message. A larger one is lent: the
 * client copies it once, out of the server's memory. Asking for "." ends the server.
 */
public final class FileFetch {
  private static final String NAME = "java-files";
  private static final int FOUND = 0;
  private static final int NOT_FOUND = 1;

  private FileFetch() {}

  /** Runs the server or the client. */
  public static void main(String[] arguments) throws IOException, InterruptedException {
    if (arguments.length == 2 && arguments[0].equals("server")) {
      serve(Path.of(arguments[1]).toRealPath());
    } else if (arguments.length == 3 && arguments[0].equals("client")) {
      if (!fetch(arguments[1], Path.of(arguments[2]))) System.exit(1);
    } else {
      System.err.println("usage: FileFetch server DIRECTORY | FileFetch client FILE OUTPUT");
      System.exit(2);
    }
  }

  private static void serve(Path directory) throws IOException, InterruptedException {
    try (Ripc ripc = Ripc.open();
        Service service = ripc.service().name(NAME).register()) {
      System.out.println("FileFetch: serving");
      boolean more = true;
      while (more) {
        try (Message request = service.receive()) {
          String name = StandardCharsets.UTF_8.decode(request.item(0)).toString();
          more = !name.equals(".");
          Path file = directory.resolve(name).normalize();
          if (!file.startsWith(directory) || !Files.isRegularFile(file)) {
            service.reply(request, new Outgoing().tag(NOT_FOUND));
          } else {
            send(ripc, service, request, file);
          }
        }
      }
    }
  }

  private static void send(Ripc ripc, Service service, Message request, Path file)
      throws IOException {
    try (FileChannel channel = FileChannel.open(file);
        RegisteredBuffer buffer = ripc.lease((int) channel.size())) {
      ByteBuffer content = buffer.buffer();
      while (content.hasRemaining() && channel.read(content) >= 0) {}
      content.flip();
      Outgoing answer = new Outgoing().tag(FOUND);
      if (content.remaining() <= service.shortLimit(request.source(), 1)) {
        answer.add(content);
      } else {
        answer.borrow(content);
      }
      // The library keeps the borrowed memory until the client has the file; this thread goes on.
      service.reply(request, answer);
    }
  }

  private static boolean fetch(String name, Path output) throws IOException, InterruptedException {
    try (Ripc ripc = Ripc.open();
        Service service = ripc.register().lending(true)) {
      service.send(ServiceId.ofName(NAME), ByteBuffer.wrap(name.getBytes(StandardCharsets.UTF_8)));
      try (Message answer = service.receive(10, TimeUnit.SECONDS)) {
        if (answer == null) throw new IllegalStateException("no answer within 10 seconds");
        if (answer.tag() != FOUND) {
          System.out.println("FileFetch: " + name + ": no such file");
          return false;
        }
        if (answer.status(0) != Status.OK)
          throw new IOException("the file did not come: " + answer.status(0));
        boolean inMessage = answer.kind(0) == ViewKind.SHORT;
        write(answer, output);
        System.out.println(
            "FileFetch: "
                + name
                + ": "
                + answer.size(0)
                + " bytes"
                + (inMessage ? ", in the message" : ", lent"));
        return true;
      }
    }
  }

  private static void write(Message answer, Path output) throws IOException {
    ByteBuffer part = ByteBuffer.allocateDirect(1 << 20);
    try (FileChannel channel =
        FileChannel.open(
            output,
            StandardOpenOption.CREATE,
            StandardOpenOption.TRUNCATE_EXISTING,
            StandardOpenOption.WRITE)) {
      for (long at = 0; at < answer.size(0); ) {
        at += answer.copyTo(0, at, part.clear());
        part.flip();
        while (part.hasRemaining()) channel.write(part);
      }
    }
  }
}
