// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.libripc.Ripc;
import org.libripc.ServiceId;
import org.libripc.stream.ByteStream;
import org.libripc.stream.StreamService;

/** A stream of bytes in each direction: {@code StreamEcho server}, {@code StreamEcho client}. */
public class StreamEcho {
  private static final String NAME = "example-stream";

  public static void main(String[] arguments) throws Exception {
    try (Ripc ripc = Ripc.open()) {
      if (arguments[0].equals("server")) serve(ripc);
      else ask(ripc);
    }
  }

  private static void serve(Ripc ripc) throws IOException {
    try (StreamService streams =
        StreamService.builder(ripc.service().name(NAME))
            .acceptor(stream -> echo(stream, ByteBuffer.allocate(65_536)))
            .start()) {
      System.out.println("StreamEcho: serving " + streams.service().id());
      while (System.in.read() >= 0) {}
    }
  }

  /** Writes back what arrives, as fast as the other side takes it. */
  private static void echo(ByteStream stream, ByteBuffer buffer) {
    Runnable again = () -> echo(stream, buffer);
    try {
      int count = stream.read(buffer.clear());
      if (count > 0) stream.write(buffer.flip()).thenRun(() -> stream.onReadable(again));
      else if (count == 0) stream.onReadable(again);
      else stream.close();
    } catch (IOException broken) {
      stream.close();
    }
  }

  private static void ask(Ripc ripc) throws Exception {
    try (StreamService streams = StreamService.builder(ripc.service()).start();
        ByteStream stream = streams.connect(ServiceId.ofName(NAME), 10, TimeUnit.SECONDS).get()) {
      stream.write(StandardCharsets.UTF_8.encode("hello")).get();
      stream.shutdownOutput(); // the server sees the end, and closes
      ByteBuffer answer = ByteBuffer.allocate(100);
      while (stream.read(answer) >= 0) {
        CompletableFuture<Void> more = new CompletableFuture<>();
        stream.onReadable(() -> more.complete(null));
        streams.await(more, 10, TimeUnit.SECONDS);
      }
      System.out.println("StreamEcho: " + StandardCharsets.UTF_8.decode(answer.flip()));
    }
  }
}
