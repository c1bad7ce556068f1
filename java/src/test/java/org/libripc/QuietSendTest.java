// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Long messages whose sender is not told when the peer has taken them. */
class QuietSendTest extends PairTest {
  private static final int SIZE = 100_000;

  private Ticket send(RegisteredBuffer memory) {
    return client.send(server.id(), new Outgoing().quiet().add(memory, ItemKind.LONG));
  }

  @Test
  void pollingCompletesTheTicketWithoutACallback() throws Exception {
    server.lending(true);
    int before = Callbacks.waiting();
    RegisteredBuffer memory = clientContext.lease(SIZE);
    memory.buffer().put(pattern(SIZE, 1));
    Ticket ticket = send(memory);
    assertEquals(before, Callbacks.waiting());
    memory.release();
    try (Message message = receive(server)) {
      assertEquals(pattern(SIZE, 1), message.item(0));
      if (isShm()) {
        assertFalse(ticket.poll(), "the peer has it still");
        assertEquals(1, client.settle());
      }
    }
    assertTrue(eventually(ticket::poll));
    assertEquals(Status.OK, finalStatus(ticket));
    assertTrue(eventually(() -> client.settle() == 0));
  }

  @Test
  void theMemoryOfWhatWasTakenIsUsedAgain() throws Exception {
    server.lending(true);
    for (int count = 0; count < 1000; ++count) {
      try (RegisteredBuffer memory = clientContext.lease(SIZE)) {
        send(memory);
      }
      receive(server).close();
    }
    assertTrue(eventually(() -> client.settle() == 0));
    long leased = clientContext.poolStatistics().leased();
    assertTrue(leased <= 16L * (1 << 17), leased + " bytes");
  }

  @Test
  void theyEndWithTheService() throws Exception {
    List<Ticket> tickets = new ArrayList<>();
    for (int count = 0; count < 10; ++count) {
      try (RegisteredBuffer memory = clientContext.lease(SIZE)) {
        tickets.add(send(memory));
      }
    }
    client.close();
    for (Ticket each : tickets) assertEquals(Status.CLOSED, finalStatus(each));
  }

  // The action runs in the thread that settles.
  @Test
  void anActionOfATicketMayCloseTheService() throws Exception {
    server.lending(true);
    try (RegisteredBuffer memory = clientContext.lease(SIZE)) {
      Ticket first = send(memory);
      Ticket second = send(memory);
      first.thenRun(client::close);
      receive(server).close();
      assertTrue(
          eventually(
              () -> {
                client.settle();
                return first.isDone();
              }));
      assertTrue(client.isClosed());
      assertEquals(0, client.settle());
      assertTrue(eventually(second::isDone));
    }
  }

  // The action runs in the thread that sends.
  @Test
  void anActionOfATicketMayCloseTheServiceOfASend() throws Exception {
    assumeTrue(isShm(), "elsewhere nobody knows when the ticket can end");
    server.lending(true);
    try (RegisteredBuffer memory = clientContext.lease(SIZE)) {
      send(memory).thenRun(client::close);
      receive(server).close();
      Ticket second = assertTimeoutPreemptively(Duration.ofSeconds(LIMIT), () -> send(memory));
      assertTrue(client.isClosed());
      assertEquals(Status.CLOSED, finalStatus(second));
    }
  }

  @Test
  void oneIsWithdrawn() throws Exception {
    try (RegisteredBuffer memory = clientContext.lease(SIZE)) {
      Ticket ticket = send(memory);
      assertTrue(ticket.cancel(false));
      assertTrue(ticket.isCancelled());
      assertTrue(eventually(() -> client.settle() == 0));
    }
  }
}
