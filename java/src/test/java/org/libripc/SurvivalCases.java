// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.libripc.SurvivalWorld.check;
import static org.libripc.SurvivalWorld.direct;
import static org.libripc.SurvivalWorld.fine;
import static org.libripc.SurvivalWorld.refused;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.libripc.SurvivalWorld.Case;
import org.libripc.rpc.Rpc;
import org.libripc.rpc.RpcCall;

/** Messages that were received, threads and callbacks: the order of things, and who uses them. */
final class SurvivalCases {
  private static final Class<? extends Throwable> ARGUMENT = IllegalArgumentException.class;
  private static final Class<? extends Throwable> STATE = IllegalStateException.class;
  private static final Class<? extends Throwable> CLOSED = RipcException.Closed.class;
  private static final int LARGE = 1_200_000;
  private static final int MORE_THAN_A_CHUNK = 1_000_000;

  private SurvivalCases() {}

  static List<Case> all() {
    List<Case> cases = new ArrayList<>();
    cases.addAll(received());
    cases.addAll(threads());
    cases.addAll(callbacks());
    return cases;
  }

  private static void checkNoMemory(Status status) {
    check(status == Status.NO_MEMORY, status.toString());
  }

  private static List<Case> received() {
    return List.of(
        refused(
            "an item of a closed message",
            STATE,
            world -> {
              Message message = world.message(direct(10));
              message.close();
              message.close();
              message.item(0);
            }),
        fine(
            "a view of a closed message",
            world -> {
              Message message = world.message(direct(1000));
              ByteBuffer item = message.item(0);
              message.close();
              world.otherRipc.close();
              System.gc();
              item.get(999);
            }),
        refused(
            "an item before the first",
            IndexOutOfBoundsException.class,
            world -> world.message(direct(10)).item(-1)),
        refused(
            "an item behind the last",
            IndexOutOfBoundsException.class,
            world -> world.message(direct(10)).kind(1)),
        refused(
            "bytes behind the end",
            IndexOutOfBoundsException.class,
            world -> world.message(direct(10)).copyTo(0, 11, direct(10))),
        refused(
            "bytes before the start",
            IndexOutOfBoundsException.class,
            world -> world.message(direct(10)).copyTo(0, Long.MIN_VALUE, direct(10))),
        refused(
            "a lent item copied to a read-only buffer",
            java.nio.ReadOnlyBufferException.class,
            world -> {
              world.to.lending(true);
              world.message(direct(LARGE)).copyTo(0, 0, direct(LARGE).asReadOnlyBuffer());
            }),
        fine(
            "a batch with a message for which there is no memory",
            world -> {
              Service to = world.otherRipc.service().queueBytes(4 << 20).register();
              MessageBatch batch = to.batch(4, 0);
              Outgoing large = new Outgoing().add(direct(MORE_THAN_A_CHUNK), ItemKind.SHORT);
              world.from.send(to.id(), large);
              world.from.send(to.id(), new Outgoing().tag(7));
              world.withoutMemory(
                  same -> {
                    for (int tag = 0; tag != 7; tag = batch.get(batch.size() - 1).tag()) {
                      int count = to.receive(batch, PairTest.LIMIT, TimeUnit.SECONDS);
                      check(count != 0, "nothing came");
                      if (batch.get(0).tag() == 0) checkNoMemory(batch.get(0).status(0));
                    }
                  });
            }),
        fine(
            "calls for whose arguments and answers there is no memory",
            world -> {
              try (Rpc caller = Rpc.open(world.ripc.service().queueBytes(4 << 20).register());
                  Rpc answerer =
                      Rpc.open(world.otherRipc.service().queueBytes(4 << 20).register())) {
                Outgoing large = new Outgoing().add(direct(MORE_THAN_A_CHUNK), ItemKind.SHORT);
                Outgoing small = new Outgoing().add(direct(1));
                Outgoing none = new Outgoing();
                answerer
                    .on(1, request -> request.reply(request.status(0).code(), none))
                    .on(2, request -> request.reply(large));
                caller.run(0, TimeUnit.SECONDS);
                answerer.run(0, TimeUnit.SECONDS);
                ServiceId to = answerer.service().id();
                RpcCall received = caller.call(to, 1, large);
                RpcCall answered = caller.call(to, 2, small);
                RpcCall last = caller.call(to, 1, small);
                world.withoutMemory(
                    same -> {
                      while (!received.isDone() || !answered.isDone() || !last.isDone()) {
                        answerer.run(1, TimeUnit.MILLISECONDS);
                        caller.run(1, TimeUnit.MILLISECONDS);
                      }
                    });
                checkNoMemory(Status.of(received.join().code()));
                checkNoMemory(answered.join().status(0));
                check(last.join().code() == Status.OK.code(), last.toString());
              }
            }),
        refused(
            "a short item copied to a read-only buffer of a file",
            java.nio.ReadOnlyBufferException.class,
            world -> {
              ByteBuffer mapped = world.mapped(10).asReadOnlyBuffer();
              world.message(direct(10)).copyTo(0, 0, mapped);
            }),
        refused(
            "a short item written",
            java.nio.ReadOnlyBufferException.class,
            world -> world.message(direct(10)).item(0).put(0, (byte) 1)),
        refused("an item that is missing", STATE, world -> world.message(direct(LARGE)).item(0)),
        fine(
            "a borrowed view after everything is closed",
            world -> {
              world.to.lending(true);
              RegisteredBuffer lease = world.ripc.lease(LARGE);
              world.from.send(world.to.id(), new Outgoing().borrow(lease));
              Message message = world.receive(world.to);
              ByteBuffer view = message.borrow(0);
              message.close();
              lease.release();
              world.ripc.close();
              world.otherRipc.close();
              System.gc();
              view.get(LARGE - 1);
            }),
        fine(
            "messages that nobody closes",
            world -> {
              world.to.lending(true);
              for (int count = 0; count < 30; ++count) world.message(direct(LARGE));
              System.gc();
            }),
        refused(
            "a reply to a closed message",
            STATE,
            world -> {
              Message message = world.message(direct(10));
              message.close();
              world.to.reply(message, direct(10));
            }),
        fine(
            "two replies to one request",
            world -> {
              world.from.send(world.to.id(), new Outgoing().attach(new ReturnBuffer(direct(10))));
              try (Message request = world.receive(world.to)) {
                for (int count = 0; count < 2; ++count)
                  world.to.reply(request, new Outgoing().addReturn(direct(10), 0));
              }
            }),
        fine(
            "a reply into a return buffer that there is not",
            world -> {
              world.from.send(world.to.id(), new Outgoing().attach(new ReturnBuffer(direct(10))));
              try (Message request = world.receive(world.to)) {
                try {
                  world.to.reply(request, new Outgoing().addReturn(direct(10), 15));
                } catch (RipcException refused) {
                  check(refused.status() == Status.INVALID_ARGUMENT, refused.toString());
                }
              }
            }),
        refused(
            "a batch used after poll() has fetched more",
            STATE,
            world -> {
              MessageBatch batch = world.to.batch(4, 1000);
              for (int count = 0; count < 8; ++count) world.from.send(world.to.id(), direct(10));
              world.receive(world.to).close();
              // Messages that come one by one over a network are there soon.
              while (world.to.poll(batch) < 4) batch.close();
              world.receive(world.to).close();
              throw new IllegalStateException("over a network they came one by one");
            }),
        refused(
            "a message of a batch that was closed",
            IndexOutOfBoundsException.class,
            world -> {
              MessageBatch batch = world.to.batch(4, 1000);
              world.from.send(world.to.id(), direct(10));
              while (world.to.receive(batch, 1, TimeUnit.SECONDS) == 0) {}
              batch.close();
              batch.get(0);
            }),
        refused(
            "batches of sizes that cannot be",
            ARGUMENT,
            world -> world.to.batch(64, Integer.MAX_VALUE)));
  }

  private static List<Case> threads() {
    return List.of(
        refused(
            "two receivers",
            STATE,
            world -> {
              CompletableFuture<Void> other = new CompletableFuture<>();
              Thread thread =
                  new Thread(
                      () -> {
                        try {
                          world.to.receive();
                        } catch (InterruptedException | RipcException end) {
                          other.complete(null);
                        }
                      });
              thread.start();
              PairTest.eventually(() -> world.to.statistics().sleeps() > 0);
              try {
                world.to.poll();
              } finally {
                world.otherRipc.close();
                other.get(PairTest.LIMIT, TimeUnit.SECONDS);
              }
            }),
        refused(
            "an interrupted thread that receives",
            InterruptedException.class,
            world -> {
              Thread.currentThread().interrupt();
              world.to.receive();
            }),
        fine(
            "an interrupted thread that sends",
            world -> {
              Thread.currentThread().interrupt();
              world.from.send(world.to.id(), direct(LARGE));
              check(Thread.interrupted(), "the interrupt is lost");
            }),
        refused(
            "a context closed while another thread waits for room",
            CLOSED,
            world -> {
              while (world.from.trySend(world.to.id(), new Outgoing()) != null) {}
              new Thread(world.ripc::close).start();
              while (!world.from.waitRoom(world.to.id(), 1, TimeUnit.MILLISECONDS)) {}
            }),
        refused(
            "a context closed while another thread selects",
            CLOSED,
            world -> {
              try (RipcSelector selector = RipcSelector.open()) {
                selector.register(world.from, null);
                Thread closer = new Thread(world.ripc::close);
                closer.start();
                closer.join();
                check(selector.select(1, TimeUnit.MILLISECONDS).isEmpty(), "something is ready");
                selector.register(world.from, null);
              }
            }),
        fine(
            "a context closed by many threads at once",
            world -> {
              List<Thread> closers = new ArrayList<>();
              for (int count = 0; count < 8; ++count) closers.add(new Thread(world.ripc::close));
              closers.forEach(Thread::start);
              for (Thread each : closers) each.join();
            }),
        fine(
            "a context closed while many threads send",
            world -> {
              List<Thread> senders = new ArrayList<>();
              for (int count = 0; count < 4; ++count) {
                senders.add(
                    new Thread(
                        () -> {
                          try {
                            for (; ; )
                              world.from.trySend(
                                  world.to.id(), new Outgoing().borrow(direct(LARGE)));
                          } catch (RipcException end) {
                            // The context is closed.
                          }
                        }));
              }
              senders.forEach(Thread::start);
              world.ripc.close();
              for (Thread each : senders) each.join();
            }),
        fine(
            "services that are forgotten",
            world -> {
              for (int count = 0; count < 20; ++count) world.ripc.register();
              System.gc();
              world.from.send(world.to.id(), direct(10));
            }));
  }

  private static List<Case> callbacks() {
    return List.of(
        fine(
            "a context closed by its own notification",
            world -> {
              CompletableFuture<Void> ran = new CompletableFuture<>();
              Notification notification =
                  world.to.register(
                      (source, items) -> {
                        world.otherRipc.close();
                        ran.complete(null);
                      });
              world.from.notify(notification, direct(10));
              ran.get(PairTest.LIMIT, TimeUnit.SECONDS);
            }),
        fine(
            "a notification that unregisters itself and throws",
            world -> {
              CompletableFuture<Void> ran = new CompletableFuture<>();
              CompletableFuture<Notification> own = new CompletableFuture<>();
              own.complete(
                  world.to.register(
                      (source, items) -> {
                        world.to.unregister(own.join());
                        ran.complete(null);
                        throw new OutOfMemoryError("of a handler");
                      }));
              world.from.notify(own.join(), direct(10));
              ran.get(PairTest.LIMIT, TimeUnit.SECONDS);
            }),
        fine(
            "a service closed by what depends on its ticket",
            world -> {
              world.to.post(new ReceiveWindow(direct(LARGE)));
              Ticket ticket = world.from.send(world.to.id(), new Outgoing().borrow(direct(LARGE)));
              CompletableFuture<Void> closed = ticket.thenRun(world.from::close);
              world.receive(world.to).close();
              closed.get(PairTest.LIMIT, TimeUnit.SECONDS);
            }),
        fine(
            "a context closed by what depends on a cancelled ticket",
            world -> {
              Ticket ticket = world.from.send(world.to.id(), new Outgoing().borrow(direct(LARGE)));
              CompletableFuture<Void> closed =
                  ticket.handle(
                      (nothing, why) -> {
                        world.ripc.close();
                        return null;
                      });
              ticket.cancel(true);
              closed.get(PairTest.LIMIT, TimeUnit.SECONDS);
            }),
        refused(
            "a callback that waits for its own service",
            STATE,
            world -> {
              CompletableFuture<Void> ran = new CompletableFuture<>();
              Notification notification =
                  world.to.register(
                      (source, items) -> {
                        try {
                          world.to.receive(1, TimeUnit.MILLISECONDS);
                          ran.completeExceptionally(new IllegalStateException("received nothing"));
                        } catch (InterruptedException | RuntimeException problem) {
                          ran.completeExceptionally(problem);
                        }
                      });
              world.from.notify(notification, direct(10));
              try {
                ran.get(PairTest.LIMIT, TimeUnit.SECONDS);
              } catch (java.util.concurrent.ExecutionException failure) {
                throw failure.getCause();
              }
            }));
  }
}
