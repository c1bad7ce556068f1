// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.libripc.rpc.CallHandler;
import org.libripc.rpc.Rpc;

/** A message makes as much garbage as docs/java.md says. */
class AllocationTest extends PairTest {
  private static final int WARM_UP = 20_000;
  private static final int COUNT = 20_000;

  private static double bytesPerRound(ThrowingRunnable body) throws Throwable {
    com.sun.management.ThreadMXBean threads =
        (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    for (int round = 0; round < WARM_UP; ++round) body.run();
    long id = Thread.currentThread().getId();
    long before = threads.getThreadAllocatedBytes(id);
    for (int round = 0; round < COUNT; ++round) body.run();
    return (double) (threads.getThreadAllocatedBytes(id) - before) / COUNT;
  }

  @Test
  void sendingAndReceivingABatchMakesNoGarbage() throws Throwable {
    ByteBuffer payload = pattern(64, 1);
    Outgoing message = new Outgoing();
    try (MessageBatch batch = server.batch(16, 4096)) {
      double bytes =
          bytesPerRound(
              () -> {
                client.send(server.id(), message.clear().tag(3).add(payload));
                while (server.receive(batch, LIMIT, TimeUnit.SECONDS) == 0) {}
                Message received = batch.get(0);
                if (received.item(0).remaining() != 64 || !received.source().equals(client.id())) {
                  throw new AssertionError("wrong message");
                }
              });
      System.out.printf(
          "garbage, %s over %s, batch: %.2f bytes a message%n",
          Ripc.bindingName(), transport, bytes);
      // A receive that waits longer than its first look makes one small object.
      assertTrue(bytes <= (isShm() ? 2 : 42), bytes + " bytes for each message");
    }
  }

  @Test
  void aSingleMessageIsOneObjectAndOneView() throws Throwable {
    ByteBuffer payload = pattern(64, 1);
    double bytes =
        bytesPerRound(
            () -> {
              client.send(server.id(), payload);
              try (Message received = receive(server)) {
                if (received.item(0).remaining() != 64) throw new AssertionError("wrong message");
              }
            });
    System.out.printf(
        "garbage, %s over %s, single: %.2f bytes a message%n",
        Ripc.bindingName(), transport, bytes);
    assertTrue(bytes <= (isShm() ? 132 : 172), bytes + " bytes for each message");
  }

  @Test
  void aCallMakesNoGarbageIfItsObjectsAreUsedAgain() throws Throwable {
    ByteBuffer payload = pattern(64, 1);
    Outgoing arguments = new Outgoing();
    Outgoing answer = new Outgoing();
    int[] ended = {0};
    try (Rpc caller = Rpc.open(client);
        Rpc answerer = Rpc.open(server)) {
      answerer.on(1, request -> request.reply(answer.clear().add(request.item(0))));
      CallHandler handler =
          result -> {
            if (result.item(0).remaining() != 64) throw new AssertionError("wrong answer");
            ++ended[0];
          };
      double bytes =
          bytesPerRound(
              () -> {
                int before = ended[0];
                caller.callThen(server.id(), 1, arguments.clear().add(payload), handler);
                while (ended[0] == before) {
                  answerer.run(0, TimeUnit.SECONDS);
                  caller.run(0, TimeUnit.SECONDS);
                }
              });
      System.out.printf(
          "garbage, %s over %s, call: %.2f bytes a call%n", Ripc.bindingName(), transport, bytes);
      assertTrue(bytes <= 2, bytes + " bytes for each call");
    }
  }
}
