// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledForJreRange;
import org.junit.jupiter.api.condition.JRE;

/**
 * More virtual threads than carriers send requests and lend memory, while platform threads receive.
 */
@EnabledForJreRange(min = JRE.JAVA_21)
class VirtualThreadsTest extends PairTest {
  private static final int THREADS = 1000;

  private void use() throws Exception {
    ByteBuffer lent = ByteBuffer.allocateDirect(20_000);
    client
        .send(server.id(), new Outgoing().borrow(lent), LIMIT, TimeUnit.SECONDS)
        .get(LIMIT, TimeUnit.SECONDS);
    ReturnBuffer returned = new ReturnBuffer(ByteBuffer.allocateDirect(100));
    client.send(server.id(), new Outgoing().attach(returned), LIMIT, TimeUnit.SECONDS);
    eventually(() -> !returned.isAttached());
    client.settle();
  }

  private void answer() throws Exception {
    for (int left = 2 * THREADS; left > 0; --left) {
      try (Message message = receive(server)) {
        if (message.returnCount() == 0) continue;
        Outgoing answer = new Outgoing().addReturn(bytes("back"), 0);
        while (server.tryReply(message, answer) == null) Thread.onSpinWait();
      }
    }
  }

  @Test
  void requestsOfManyAreAnswered() throws Exception {
    Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
    server.lending(true);
    Queue<Throwable> problems = new ConcurrentLinkedQueue<>();
    Thread answering = thread(this::answer);
    Thread receiving =
        thread(
            () -> {
              for (int left = THREADS; left > 0; --left) receive(client).close();
            });
    Runnable user =
        () -> {
          try {
            use();
          } catch (Throwable problem) {
            problems.add(problem);
          }
        };
    Thread[] users = new Thread[THREADS];
    for (int index = 0; index < THREADS; ++index) users[index] = (Thread) start.invoke(null, user);
    for (Thread each : users) each.join();
    answering.join();
    receiving.join();
    assertEquals(List.of(), List.copyOf(problems));
  }
}
