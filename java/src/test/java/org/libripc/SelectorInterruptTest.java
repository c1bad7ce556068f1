// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Threads that are interrupted while they wait in a selector. */
class SelectorInterruptTest extends PairTest {
  @Test
  void interruptEndsTheWaitOfItsThread() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      List<Thread> waiters = new ArrayList<>();
      for (int count = 0; count < 4; ++count) {
        waiters.add(
            thread(
                () ->
                    assertThrows(
                        InterruptedException.class,
                        () -> {
                          for (; ; ) selector.awaitEvent();
                        })));
      }
      // The kernel first wakes the thread that began to wait last.
      for (Thread each : waiters) {
        assertTrue(eventually(() -> each.getState() == Thread.State.RUNNABLE));
        each.interrupt();
        each.join(TimeUnit.SECONDS.toMillis(LIMIT));
        assertFalse(each.isAlive(), "it waits on");
      }
    }
  }

  @Test
  void anInterruptLosesNoMessage() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(server, null);
      Thread selecting = Thread.currentThread();
      for (int round = 0; round < 100; ++round) {
        assertNull(server.poll());
        Thread sender =
            thread(
                () -> {
                  client.send(server.id(), bytes("kept"));
                  selecting.interrupt();
                });
        assertThrows(
            InterruptedException.class,
            () -> {
              for (; ; ) selector.select();
            });
        sender.join();
        List<RipcSelector.Key> ready = selector.select(LIMIT, TimeUnit.SECONDS);
        // The interrupt may have left a wakeup.
        if (ready.isEmpty()) ready = selector.select(LIMIT, TimeUnit.SECONDS);
        assertEquals(List.of(key), ready, "round " + round);
        assertEquals("kept", receiveText(server));
      }
    }
  }

  /** Is interrupted when its first wait begins, by an interrupt that has found no wait. */
  private static final class LateThread extends Thread {
    private boolean late = true;

    LateThread(Runnable body) {
      super(body);
    }

    @Override
    public boolean isInterrupted() {
      boolean before = super.isInterrupted();
      if (late) interrupt();
      late = false;
      return before;
    }
  }

  @Test
  void anInterruptThatComesWithTheBeginOfASelectEndsIt() throws Exception {
    AtomicReference<Throwable> end = new AtomicReference<>();
    LateThread waiter;
    try (RipcSelector selector = RipcSelector.open()) {
      waiter =
          new LateThread(
              () -> end.set(assertThrows(InterruptedException.class, () -> selector.select())));
      waiter.start();
      waiter.join(TimeUnit.SECONDS.toMillis(LIMIT));
    }
    waiter.join();
    assertNotNull(end.get(), "it waited on");
  }
}
