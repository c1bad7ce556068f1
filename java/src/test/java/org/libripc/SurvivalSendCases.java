// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.libripc.SurvivalWorld.check;
import static org.libripc.SurvivalWorld.direct;
import static org.libripc.SurvivalWorld.failing;
import static org.libripc.SurvivalWorld.fine;
import static org.libripc.SurvivalWorld.refused;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.libripc.SurvivalWorld.Case;

/** Messages that cannot be sent, and things that belong to another service or context. */
final class SurvivalSendCases {
  private static final Class<? extends Throwable> ARGUMENT = IllegalArgumentException.class;
  private static final Class<? extends Throwable> STATE = IllegalStateException.class;
  private static final Class<? extends Throwable> CLOSED = RipcException.Closed.class;
  private static final int LARGE = 100_000;

  private SurvivalSendCases() {}

  static List<Case> all() {
    List<Case> cases = new ArrayList<>();
    cases.addAll(messages());
    cases.addAll(foreigners());
    return cases;
  }

  private static List<Case> messages() {
    return List.of(
        refused(
            "65 items",
            STATE,
            world -> {
              Outgoing message = new Outgoing();
              for (int count = 0; count < 65; ++count) message.add(direct(1));
            }),
        refused(
            "17 return buffers",
            STATE,
            world -> {
              Outgoing message = new Outgoing();
              for (int count = 0; count < 17; ++count) message.attach(new ReturnBuffer(direct(1)));
            }),
        refused(
            "a return buffer attached twice",
            STATE,
            world -> {
              ReturnBuffer buffer = new ReturnBuffer(direct(1));
              world.from.send(world.to.id(), new Outgoing().attach(buffer).attach(buffer));
            }),
        refused(
            "a return buffer of a request that is under way",
            STATE,
            world -> {
              ReturnBuffer buffer = new ReturnBuffer(direct(1));
              world.from.send(world.to.id(), new Outgoing().attach(buffer));
              world.from.send(world.to.id(), new Outgoing().attach(buffer));
            }),
        refused(
            "no return buffer attached",
            NullPointerException.class,
            world -> world.from.send(world.to.id(), new Outgoing().attach(null))),
        refused(
            "a return buffer that cannot be",
            IndexOutOfBoundsException.class,
            world -> new Outgoing().addReturn(direct(1), 16)),
        refused(
            "a return without its number",
            ARGUMENT,
            world -> new Outgoing().add(direct(1), ItemKind.RETURN)),
        refused(
            "a heap buffer borrowed",
            ARGUMENT,
            world -> new Outgoing().borrow(ByteBuffer.allocate(10))),
        fine(
            "an item whose limit moves after add()",
            world -> {
              ByteBuffer item = direct(LARGE);
              Outgoing message = new Outgoing().add(item);
              item.position(LARGE);
              world.to.post(new ReceiveWindow(direct(LARGE)));
              world.from.send(world.to.id(), message);
              try (Message received = world.receive(world.to)) {
                check(received.size(0) == LARGE, "size " + received.size(0));
              }
            }),
        fine(
            "the memory of an item used for something else at once",
            world -> {
              world.to.lending(true);
              ByteBuffer item = direct(LARGE);
              world.from.send(world.to.id(), item);
              while (item.hasRemaining()) item.put((byte) 1);
              world.receive(world.to).close();
            }),
        failing(
            "a short message that is too large",
            Status.TOO_LARGE,
            world ->
                world.from.send(
                    world.to.id(), new Outgoing().add(direct(2 << 20), ItemKind.SHORT))),
        refused(
            "a message to nobody",
            NullPointerException.class,
            world -> world.from.send(null, direct(1))),
        failing(
            "a message to an ID that nobody has",
            Status.NO_SERVICE,
            world -> world.from.send(ServiceId.of(-5), direct(1))),
        failing(
            "something borrowed for a group",
            Status.UNSUPPORTED,
            world -> {
              ServiceId group = ServiceId.ofGroup(1);
              world.to.join(group);
              world.from.send(group, new Outgoing().borrow(direct(LARGE)));
            }),
        refused(
            "messages that are not there",
            NullPointerException.class,
            world -> world.from.sendMany(world.to.id(), new Outgoing[2], 2)),
        refused(
            "more messages than there are",
            IndexOutOfBoundsException.class,
            world -> world.from.sendMany(world.to.id(), new Outgoing[1], 2)),
        refused(
            "less messages than none",
            IndexOutOfBoundsException.class,
            world -> world.from.sendMany(world.to.id(), new Outgoing[1], -1)),
        refused(
            "many messages, one of which is large",
            ARGUMENT,
            world ->
                world.from.sendMany(
                    world.to.id(), new Outgoing[] {new Outgoing().add(direct(LARGE))}, 1)),
        fine(
            "the same message many times at once",
            world -> {
              Outgoing message = new Outgoing().add(direct(100));
              Outgoing[] many = new Outgoing[64];
              Arrays.fill(many, message);
              check(world.from.sendMany(world.to.id(), many, 64) > 0, "none was sent");
            }),
        fine(
            "messages until there is no room",
            world -> {
              while (world.from.trySend(world.to.id(), new Outgoing().add(direct(LARGE)))
                  != null) {}
            }),
        refused(
            "a message of a closed service",
            CLOSED,
            world -> {
              world.from.close();
              world.from.send(world.to.id(), new Outgoing().borrow(direct(LARGE)));
            }),
        failing(
            "a request that is not there",
            Status.INVALID_ARGUMENT,
            world -> world.from.cancelRequest(77)),
        failing(
            "a group that is none",
            Status.INVALID_ARGUMENT,
            world -> world.from.join(world.to.id())),
        refused("a number that is no ID", ARGUMENT, world -> ServiceId.of(0)),
        refused("a name with a 0", ARGUMENT, world -> ServiceId.ofName("a\0b")),
        failing(
            "a name that is too long",
            Status.INVALID_ARGUMENT,
            world -> ServiceId.ofName("a".repeat(201))),
        refused(
            "a ticket completed by the application",
            UnsupportedOperationException.class,
            world -> {
              Ticket ticket = world.from.send(world.to.id(), new Outgoing().borrow(direct(LARGE)));
              check(
                  !ticket.complete(null) && !ticket.completeExceptionally(new Error()),
                  "completed");
              ticket.obtrudeValue(null);
            }),
        fine(
            "a ticket cancelled and looked at after the context's end",
            world -> {
              Ticket ticket = world.from.send(world.to.id(), new Outgoing().borrow(direct(LARGE)));
              world.ripc.close();
              check(PairTest.eventually(ticket::isDone), "open");
              check(ticket.poll() && !ticket.cancel(true), "cancelled");
            }));
  }

  private static List<Case> foreigners() {
    return List.of(
        fine(
            "a lease of another context, borrowed",
            world -> {
              world.to.post(new ReceiveWindow(direct(LARGE)));
              RegisteredBuffer foreign = world.otherRipc.lease(LARGE);
              world.from.send(world.to.id(), new Outgoing().borrow(foreign));
              foreign.release();
              world.receive(world.to).close();
            }),
        fine(
            "a lease of another context that is closed, sent",
            world -> {
              RegisteredBuffer foreign;
              try (Ripc other = world.open()) {
                foreign = other.lease(LARGE);
              }
              world.from.send(world.to.id(), new Outgoing().add(foreign, ItemKind.AUTO));
            }),
        fine(
            "a window of a lease of another context",
            world -> {
              world.to.post(new ReceiveWindow(world.ripc.lease(LARGE)));
              world.from.send(world.to.id(), direct(LARGE));
              world.receive(world.to).close();
            }),
        refused(
            "a batch of another service",
            ARGUMENT,
            world -> world.from.poll(world.to.batch(1, 10))),
        // Only the receiver has the right to reply. The first reply of another service is a plain
        // message.
        new Case(
            "a reply by a service that has not received the request",
            world -> {
              world.from.send(world.to.id(), new Outgoing().attach(new ReturnBuffer(direct(10))));
              try (Message request = world.receive(world.to);
                  Service third = world.otherRipc.register()) {
                third.reply(request, new Outgoing().addReturn(direct(10), 0));
              }
            },
            "a result or a status",
            thrown -> thrown == null || thrown instanceof RipcException),
        new Case(
            "a reply by a service of another context",
            world -> {
              world.from.send(world.to.id(), new Outgoing().attach(new ReturnBuffer(direct(10))));
              try (Message request = world.receive(world.to)) {
                world.from.reply(request, new Outgoing().addReturn(direct(10), 0));
              }
            },
            "a result or a status",
            thrown -> thrown == null || thrown instanceof RipcException),
        fine(
            "a notification of another service",
            world -> {
              Notification notification = world.to.register((source, items) -> {});
              world.from.notify(
                  new Notification(world.to.id(), notification.handle() + 1), direct(10));
            }),
        failing(
            "a notification unregistered by another service",
            Status.INVALID_ARGUMENT,
            world -> world.from.unregister(world.to.register((source, items) -> {}))),
        failing(
            "arguments of a notification that are too large",
            Status.TOO_LARGE,
            world -> world.from.notify(world.to.register((source, items) -> {}), direct(1 << 20))),
        refused(
            "a key of a closed service",
            CLOSED,
            world -> {
              try (RipcSelector selector = RipcSelector.open()) {
                RipcSelector.Key key = selector.register(world.from, null);
                world.from.close();
                key.pause();
                key.resume();
                key.cancel();
                key.findRoom();
              }
            }),
        refused(
            "a service registered twice with a selector",
            STATE,
            world -> {
              try (RipcSelector selector = RipcSelector.open()) {
                selector.register(world.from, null);
                selector.register(world.from, null);
              }
            }),
        refused(
            "a selector that is closed",
            CLOSED,
            world -> {
              RipcSelector selector = RipcSelector.open();
              RipcSelector.Key key = selector.register(world.from, null);
              selector.close();
              selector.close();
              selector.wakeup();
              key.pause();
              key.cancel();
              selector.select();
            }));
  }
}
