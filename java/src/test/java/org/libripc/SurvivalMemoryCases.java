// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.libripc.SurvivalWorld.check;
import static org.libripc.SurvivalWorld.direct;
import static org.libripc.SurvivalWorld.failing;
import static org.libripc.SurvivalWorld.fine;
import static org.libripc.SurvivalWorld.refused;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.libripc.SurvivalWorld.Case;

/** Memory that is released, foreign, read-only or twice in use. */
final class SurvivalMemoryCases {
  private static final Class<? extends Throwable> ARGUMENT = IllegalArgumentException.class;
  private static final Class<? extends Throwable> STATE = IllegalStateException.class;
  private static final Class<? extends Throwable> CLOSED = RipcException.Closed.class;
  private static final int LARGE = 100_000;

  private SurvivalMemoryCases() {}

  static List<Case> all() {
    List<Case> cases = new ArrayList<>();
    cases.addAll(memory());
    return cases;
  }

  private static List<Case> memory() {
    return List.of(
        refused("a lease of less than nothing", ARGUMENT, world -> world.ripc.lease(-1)),
        failing(
            "a lease of more than the pool", Status.NO_MEMORY, world -> world.ripc.lease(1 << 30)),
        refused(
            "a lease released twice",
            STATE,
            world -> {
              RegisteredBuffer lease = world.ripc.lease(10);
              lease.release();
              lease.release();
            }),
        fine(
            "a lease closed twice",
            world -> {
              RegisteredBuffer lease = world.ripc.lease(10);
              lease.close();
              lease.close();
              check(lease.users() == 0, "it has users");
            }),
        refused("a released lease retained", STATE, world -> released(world).retain()),
        refused("a buffer of a released lease", STATE, world -> released(world).buffer()),
        refused("a window of a released lease", STATE, world -> new ReceiveWindow(released(world))),
        refused(
            "a return buffer of a released lease",
            STATE,
            world -> new ReturnBuffer(released(world))),
        refused(
            "an item of a released lease", STATE, world -> new Outgoing().borrow(released(world))),
        refused(
            "a lease that is released between add() and send()",
            STATE,
            world -> {
              RegisteredBuffer lease = world.ripc.lease(LARGE);
              Outgoing message = new Outgoing().borrow(lease);
              lease.release();
              world.from.send(world.to.id(), message);
            }),
        refused(
            "a buffer of a lease that was released, borrowed",
            STATE,
            world -> {
              RegisteredBuffer lease = world.ripc.lease(LARGE);
              ByteBuffer buffer = lease.buffer();
              lease.release();
              world.from.send(world.to.id(), new Outgoing().borrow(buffer));
            }),
        fine(
            "a buffer of a lease written and read after the context's end",
            world -> {
              ByteBuffer buffer = world.ripc.lease(LARGE).buffer();
              world.ripc.close();
              buffer.put(LARGE - 1, (byte) 7);
              check(buffer.get(LARGE - 1) == 7, "other bytes");
            }),
        refused(
            "a heap buffer registered",
            ARGUMENT,
            world -> world.ripc.registerMemory(ByteBuffer.allocate(10))),
        refused(
            "an item in a memory segment that was closed",
            STATE,
            world -> world.from.send(world.to.id(), SurvivalWorld.closedSegment(3000))),
        refused(
            "a small item in a memory segment that was closed",
            STATE,
            world -> world.from.send(world.to.id(), SurvivalWorld.closedSegment(30))),
        refused(
            "a borrowed item in a memory segment that was closed",
            STATE,
            world ->
                world.from.send(
                    world.to.id(), new Outgoing().borrow(SurvivalWorld.closedSegment(LARGE)))),
        refused(
            "a lent item copied into a memory segment that was closed",
            STATE,
            world -> {
              world.to.lending(true);
              world.from.send(world.to.id(), new Outgoing().borrow(direct(LARGE)));
              world.receive(world.to).copyTo(0, 0, SurvivalWorld.closedSegment(LARGE));
            }),
        refused(
            "a window in a memory segment that was closed",
            STATE,
            world -> world.to.post(new ReceiveWindow(SurvivalWorld.closedSegment(LARGE)))),
        refused(
            "a return buffer in a memory segment that was closed",
            STATE,
            world ->
                world.from.send(
                    world.to.id(),
                    new Outgoing().attach(new ReturnBuffer(SurvivalWorld.closedSegment(LARGE))))),
        refused(
            "a memory segment that was closed, registered",
            STATE,
            world -> world.ripc.registerMemory(SurvivalWorld.closedSegment(LARGE))),
        refused("no byte registered", ARGUMENT, world -> world.ripc.registerMemory(direct(0))),
        refused(
            "memory registered with a closed context",
            CLOSED,
            world -> {
              world.ripc.close();
              world.ripc.registerMemory(direct(10));
            }),
        fine(
            "the same memory registered twice and ended in turn",
            world -> {
              ByteBuffer memory = direct(LARGE);
              RegisteredBuffer first = world.ripc.registerMemory(memory);
              RegisteredBuffer second = world.ripc.registerMemory(memory);
              first.close();
              world.from.send(world.to.id(), new Outgoing().add(second, ItemKind.AUTO));
              second.close();
            }),
        fine(
            "registered memory that is sent and forgotten",
            world -> {
              world.to.post(new ReceiveWindow(direct(LARGE)));
              world.from.send(
                  world.to.id(), new Outgoing().borrow(world.ripc.registerMemory(direct(LARGE))));
              System.gc();
              world.receive(world.to).close();
            }),
        refused(
            "a heap buffer as a window",
            ARGUMENT,
            world -> new ReceiveWindow(ByteBuffer.allocate(10))),
        refused(
            "a read-only buffer as a window",
            ARGUMENT,
            world -> new ReceiveWindow(direct(10).asReadOnlyBuffer())),
        refused(
            "a read-only registration as a return buffer",
            ARGUMENT,
            world -> new ReturnBuffer(world.ripc.registerMemory(direct(10).asReadOnlyBuffer()))),
        refused(
            "a window posted twice",
            STATE,
            world -> {
              ReceiveWindow window = new ReceiveWindow(direct(10));
              world.from.post(window);
              world.from.post(window);
            }),
        refused(
            "a window posted at two services",
            STATE,
            world -> {
              ReceiveWindow window = new ReceiveWindow(direct(10));
              world.from.post(window);
              world.to.post(window);
            }),
        fine(
            "a window withdrawn where it is not",
            world -> {
              ReceiveWindow window = new ReceiveWindow(direct(10));
              world.from.post(window);
              check(!world.to.withdraw(window) && !world.ripc.withdraw(window), "withdrawn");
              check(world.from.withdraw(window) && !world.from.withdraw(window), "not withdrawn");
            }),
        fine(
            "a window written by the application while it is filled",
            world -> {
              ByteBuffer memory = direct(1 << 20);
              world.to.post(new ReceiveWindow(memory));
              world.from.send(world.to.id(), direct(1 << 20));
              while (memory.hasRemaining()) memory.put((byte) 1);
              world.receive(world.to).close();
            }),
        fine(
            "a window of no bytes",
            world -> {
              world.to.post(new ReceiveWindow(direct(0)));
              world.from.send(world.to.id(), new Outgoing().borrow(direct(LARGE)));
              try (Message message = world.receive(world.to)) {
                check(message.status(0) == Status.WINDOW_TOO_SMALL, message.status(0).toString());
              }
            }),
        fine(
            "windows of the same memory",
            world -> {
              ByteBuffer memory = direct(LARGE);
              world.to.post(new ReceiveWindow(memory));
              world.to.post(new ReceiveWindow(memory));
              world.from.send(
                  world.to.id(), new Outgoing().borrow(direct(LARGE)).borrow(direct(LARGE)));
              world.receive(world.to).close();
            }));
  }

  private static RegisteredBuffer released(SurvivalWorld world) {
    RegisteredBuffer lease = world.ripc.lease(LARGE);
    lease.release();
    return lease;
  }
}
