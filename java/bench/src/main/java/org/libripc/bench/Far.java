// SPDX-License-Identifier: Apache-2.0
package org.libripc.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.libripc.Message;
import org.libripc.MessageBatch;
import org.libripc.Outgoing;
import org.libripc.Ripc;
import org.libripc.RipcException;
import org.libripc.Service;
import org.libripc.rpc.Rpc;

/**
 * The other process of a benchmark: `Far DIRECTORY echo|sink|blocks|calls`. It ends when its
 * standard input ends. With `blocks`, each byte of input asks for one block of echoes; between
 * blocks it does not spin.
 */
final class Far {
  private Far() {}

  public static void main(String[] arguments) throws Exception {
    try (Ripc ripc = Pair.open(Path.of(arguments[0]))) {
      Service service = ripc.service().name(Pair.NAME).queueMessages(1024).register();
      System.out.print("r\n");
      System.out.flush();
      Pair.pin(1);
      if (arguments[1].equals("blocks")) {
        blocks(service);
        return;
      }
      Thread end =
          new Thread(
              () -> {
                try {
                  while (System.in.read() >= 0) {}
                } catch (IOException problem) {
                  throw new UncheckedIOException(problem);
                } finally {
                  service.close();
                }
              });
      end.start();
      if (arguments[1].equals("calls")) {
        calls(service);
        end.join();
        return;
      }
      try (MessageBatch batch = service.batch(64, 1 << 16)) {
        if (arguments[1].equals("echo")) {
          while (true) echo(service, batch, Integer.MAX_VALUE);
        } else {
          sink(service, batch);
        }
      } catch (RipcException.Closed over) {
        end.join();
      }
    }
  }

  private static void blocks(Service service) throws IOException, InterruptedException {
    try (MessageBatch batch = service.batch(64, 1 << 16)) {
      while (System.in.read() >= 0) {
        System.out.print("b");
        System.out.flush();
        echo(service, batch, Beside.WARM_UP + Beside.COUNT);
      }
    }
  }

  private static void echo(Service service, MessageBatch batch, int messages)
      throws InterruptedException {
    Outgoing back = new Outgoing();
    for (int answered = 0; answered < messages; answered += batch.size()) {
      int count = service.receive(batch, 1, TimeUnit.SECONDS);
      for (int index = 0; index < count; ++index) {
        Message received = batch.get(index);
        service.send(received.source(), back.clear().add(received.item(0)));
      }
    }
  }

  private static void calls(Service service) throws InterruptedException {
    Outgoing back = new Outgoing();
    try (Rpc rpc = Rpc.open(service)) {
      rpc.on(Calls.ECHO, request -> request.reply(back.clear().add(request.item(0))));
      rpc.serve();
    }
  }

  private static void sink(Service service, MessageBatch batch) throws InterruptedException {
    ByteBuffer expected = Pair.payload(Rate.SIZE);
    while (true) {
      int count = service.receive(batch, 1, TimeUnit.SECONDS);
      for (int index = 0; index < count; ++index) {
        if (!expected.equals(batch.get(index).item(0)))
          throw new IllegalStateException("another payload came");
      }
    }
  }
}
