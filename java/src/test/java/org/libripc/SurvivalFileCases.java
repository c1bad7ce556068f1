// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.libripc.SurvivalWorld.check;
import static org.libripc.SurvivalWorld.direct;
import static org.libripc.SurvivalWorld.failing;
import static org.libripc.SurvivalWorld.fine;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel.MapMode;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.libripc.SurvivalWorld.Body;
import org.libripc.SurvivalWorld.Case;

/** Memory of mapped files that are made shorter before, after and within a call. */
final class SurvivalFileCases {
  private static final int SMALL = 500; // is copied by add()
  private static final int LARGE = 3000; // travels in the message, from where it lies
  private static final int HUGE = 2 << 20; // does not fit into a message
  private static final List<Integer> SIZES = List.of(SMALL, LARGE, HUGE);

  private SurvivalFileCases() {}

  static List<Case> all() {
    List<Case> cases = new ArrayList<>();
    sends(cases);
    views(cases);
    otherSends(cases);
    receives(cases);
    meanwhile(cases);
    return cases;
  }

  private static void lost(List<Case> cases, String name, Body body) {
    cases.add(failing(name, Status.INVALID_ARGUMENT, body));
  }

  private static void sends(List<Case> cases) {
    for (int size : SIZES) {
      for (ItemKind kind : List.of(ItemKind.AUTO, ItemKind.SHORT)) {
        if (kind == ItemKind.SHORT && size == HUGE) continue;
        String what = size + " bytes " + kind;
        lost(
            cases,
            what + " of a file that is gone before add()",
            world -> world.from.send(world.to.id(), new Outgoing().add(world.gone(size), kind)));
        Case afterwards =
            new Case(
                what + " of a file that is gone after add()",
                world -> {
                  ByteBuffer mapped = world.mapped(size);
                  Outgoing message = new Outgoing().add(mapped, kind);
                  world.resizeFile(0);
                  world.from.send(world.to.id(), message);
                },
                "a result if add() has copied it, else INVALID_ARGUMENT",
                thrown ->
                    size == SMALL
                        ? thrown == null
                        : thrown instanceof RipcException problem
                            && problem.status() == Status.INVALID_ARGUMENT);
        cases.add(afterwards);
      }
      cases.add(
          fine(
              size + " bytes borrowed of a file that is gone before the send",
              world -> borrowed(world, world.gone(size), false)));
      cases.add(
          fine(
              size + " bytes borrowed of a file that is gone after the send",
              world -> borrowed(world, world.mapped(size), true)));
    }
  }

  /** Checks that the message, or its item, does not come, and that the ticket reports it. */
  private static void borrowed(SurvivalWorld world, ByteBuffer mapped, boolean later)
      throws Exception {
    world.to.post(new ReceiveWindow(direct(HUGE)));
    Ticket ticket = world.from.send(world.to.id(), new Outgoing().borrow(mapped));
    if (later) world.resizeFile(0);
    try (Message message = world.to.receive(100, TimeUnit.MILLISECONDS)) {
      if (message != null) check(message.status(0) != Status.OK, "the item came");
    }
    ticket.cancel(false);
    check(PairTest.eventually(ticket::isDone), "the ticket does not end");
    // Pages that were sent before the file became shorter have gone out: the ticket need not fail.
    check(ticket.isCompletedExceptionally() || later, "the ticket tells nothing");
  }

  private static void views(List<Case> cases) {
    lost(
        cases,
        "a slice of a mapped file that is gone",
        world -> world.from.send(world.to.id(), world.gone(3 * LARGE).slice(LARGE, LARGE)));
    lost(
        cases,
        "a duplicate with an odd position and limit",
        world ->
            world.from.send(
                world.to.id(), world.gone(3 * LARGE).duplicate().position(4097).limit(7_001)));
    lost(
        cases,
        "a read-only view",
        world -> world.from.send(world.to.id(), world.gone(LARGE).asReadOnlyBuffer()));
    for (MapMode mode : List.of(MapMode.PRIVATE, MapMode.READ_ONLY)) {
      lost(
          cases,
          "a file mapped " + mode,
          world -> {
            ByteBuffer mapped = world.mapped(LARGE, mode);
            world.resizeFile(0);
            world.from.send(world.to.id(), mapped);
          });
    }
    lost(
        cases,
        "a file whose end is in the middle of an item",
        world -> {
          ByteBuffer mapped = world.mapped(2 * HUGE);
          world.resizeFile(HUGE);
          world.from.send(world.to.id(), mapped);
        });
    lost(
        cases,
        "a file that is gone beside items that are there",
        world ->
            world.from.send(
                world.to.id(),
                new Outgoing().add(direct(LARGE)).add(world.gone(LARGE)).add(direct(SMALL))));
    lost(
        cases,
        "a file that is gone and is registered",
        world -> {
          ByteBuffer mapped = world.mapped(LARGE);
          try (RegisteredBuffer registered = world.ripc.registerMemory(mapped)) {
            world.resizeFile(0);
            world.from.send(world.to.id(), new Outgoing().add(registered, ItemKind.AUTO));
          }
        });
  }

  private static void otherSends(List<Case> cases) {
    lost(
        cases,
        "a reply out of a file that is gone",
        world -> {
          try (Message request = world.message(direct(10))) {
            world.to.reply(request, world.gone(LARGE));
          }
        });
    lost(
        cases,
        "a reply into a return buffer out of a file that is gone",
        world -> {
          Outgoing request = new Outgoing().attach(new ReturnBuffer(direct(LARGE)));
          world.from.send(world.to.id(), request);
          try (Message received = world.receive(world.to)) {
            world.to.reply(received, new Outgoing().addReturn(world.gone(LARGE), 0));
          }
        });
    lost(
        cases,
        "the arguments of a notification in a file that is gone",
        world -> {
          Notification notification = world.to.register((source, items) -> {});
          world.from.notify(notification, world.gone(LARGE));
        });
    lost(
        cases,
        "a message to a group out of a file that is gone",
        world -> {
          ServiceId group = ServiceId.ofGroup(7);
          world.to.join(group);
          world.from.send(group, world.gone(LARGE));
        });
    cases.add(
        fine(
            "many messages of a file that is gone after add()",
            world -> {
              ByteBuffer mapped = world.mapped(SMALL);
              Outgoing message = new Outgoing().add(mapped);
              world.resizeFile(0);
              check(
                  world.from.sendMany(world.to.id(), new Outgoing[] {message}, 1) == 1,
                  "it was not sent");
            }));
    lost(
        cases,
        "a send that waits for room, of a file that is gone",
        world ->
            world.from.send(
                world.to.id(), new Outgoing().add(world.gone(LARGE)), 1, TimeUnit.SECONDS));
  }

  private static void receives(List<Case> cases) {
    for (boolean leased : List.of(true, false)) {
      String source = leased ? "leased" : "other";
      cases.add(
          fine(
              "a window of a file that is gone, filled from " + source + " memory",
              world -> window(world, leased, 0)));
      cases.add(
          fine(
              "a window of a file that ends in it, filled from " + source + " memory",
              world -> window(world, leased, HUGE / 2)));
      cases.add(
          fine(
              "a return buffer of a file that is gone, filled from " + source + " memory",
              world -> returned(world, leased)));
    }
    cases.add(
        fine(
            "a window of a mapped file that is there",
            world -> {
              ByteBuffer mapped = world.mapped(HUGE);
              ReceiveWindow window = new ReceiveWindow(mapped);
              world.to.post(window);
              ByteBuffer content = PairTest.pattern(HUGE, 1);
              world.from.send(world.to.id(), content);
              try (Message message = world.receive(world.to)) {
                check(message.window(0) == window && !window.isPosted(), "not in the window");
                check(message.item(0).equals(content) && mapped.equals(content), "other bytes");
              }
            }));
    cases.add(
        fine(
            "a return buffer of a mapped file that is there",
            world -> {
              ByteBuffer mapped = world.mapped(HUGE);
              ByteBuffer content = PairTest.pattern(HUGE, 1);
              Outgoing request = new Outgoing().attach(new ReturnBuffer(mapped));
              world.from.send(world.to.id(), request);
              try (Message received = world.receive(world.to)) {
                world.to.reply(received, new Outgoing().addReturn(content, 0));
              }
              try (Message reply = world.receive(world.from)) {
                check(reply.item(0).equals(content) && mapped.equals(content), "other bytes");
              }
            }));
    cases.add(
        fine(
            "a window of a registered file that is gone before it is posted",
            world -> {
              ByteBuffer mapped = world.mapped(HUGE);
              try (RegisteredBuffer registered = world.otherRipc.registerMemory(mapped)) {
                ReceiveWindow window = new ReceiveWindow(registered);
                world.resizeFile(0);
                world.otherRipc.post(window);
                world.from.send(world.to.id(), direct(HUGE));
                try (Message message = world.receive(world.to)) {
                  check(message.status(0) == Status.CANCELLED, message.status(0).toString());
                }
              }
            }));
    for (boolean lending : List.of(true, false)) {
      lost(
          cases,
          "copyTo() a file that is gone, of a " + (lending ? "lent" : "short") + " item",
          world -> {
            world.to.lending(lending);
            try (Message message = world.message(direct(lending ? HUGE : LARGE))) {
              message.copyTo(0, 0, world.gone(HUGE));
            }
          });
    }
    lost(
        cases,
        "copyTo() the heap, of a window of a file that is gone then",
        world -> {
          world.to.post(new ReceiveWindow(world.mapped(HUGE)));
          try (Message message = world.message(direct(HUGE))) {
            world.resizeFile(0);
            message.copyTo(0, 0, ByteBuffer.allocate(HUGE));
          }
        });
  }

  private static void window(SurvivalWorld world, boolean leased, long left) throws Exception {
    ReceiveWindow window = new ReceiveWindow(world.mapped(HUGE));
    world.to.post(window);
    world.resizeFile(left);
    RegisteredBuffer lease = world.ripc.lease(HUGE);
    Outgoing message = new Outgoing();
    world.from.send(world.to.id(), leased ? message.borrow(lease) : message.borrow(direct(HUGE)));
    try (Message received = world.receive(world.to)) {
      check(received.kind(0) == ViewKind.FAILED, "the item came");
      check(received.status(0) == Status.CANCELLED, received.status(0).toString());
    }
    check(!window.isPosted(), "the window is not the application's");
    lease.release();
  }

  private static void returned(SurvivalWorld world, boolean leased) throws Exception {
    ReturnBuffer buffer = new ReturnBuffer(world.mapped(HUGE));
    world.from.send(world.to.id(), new Outgoing().attach(buffer));
    world.resizeFile(0);
    try (Message request = world.receive(world.to);
        RegisteredBuffer lease = world.otherRipc.lease(HUGE)) {
      ByteBuffer content = leased ? lease.buffer() : direct(HUGE);
      world.to.reply(request, new Outgoing().addReturn(content, 0));
    }
    try (Message reply = world.receive(world.from)) {
      check(reply.kind(0) == ViewKind.FAILED, "the item came");
    }
    check(!buffer.isAttached(), "the return buffer is not the application's");
  }

  private static void meanwhile(List<Case> cases) {
    for (int size : SIZES) {
      cases.add(
          fine(
              size + " bytes of a file that comes and goes while it is sent",
              world -> {
                ByteBuffer mapped = world.mapped(size);
                world.to.lending(true);
                AtomicBoolean ends = new AtomicBoolean();
                Thread other =
                    new Thread(
                        () -> {
                          while (!ends.get()) {
                            world.resizeFile(0);
                            world.resizeFile(size);
                          }
                        });
                other.start();
                for (int round = 0; round < 300; ++round) {
                  try {
                    world.from.send(world.to.id(), mapped);
                    world.receive(world.to).close();
                  } catch (RipcException problem) {
                    if (problem.status() != Status.INVALID_ARGUMENT) throw problem;
                  }
                }
                ends.set(true);
                other.join();
              }));
    }
  }
}
