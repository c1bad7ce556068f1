// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.libripc.internal.Binding;
import org.libripc.internal.Layout.Outcome;
import org.libripc.internal.Layout.SendOptions;
import org.libripc.internal.NativeBinding;

/** Groups, names and paths. */
class GroupsTest extends PairTest {
  private final ServiceId group = ServiceId.ofGroup("the group");

  @Test
  void aMessageToAGroupReachesEachMemberOnce() throws Exception {
    Service third = clientContext.register();
    client.join(group);
    third.join(group);
    server.join(group);
    assertTrue(eventually(() -> clientContext.members(group).size() == 3));
    Outgoing message = new Outgoing().tag(4).add(bytes("all"));
    assertTrue(
        eventually(
            () -> {
              client.send(group, message);
              return message.outcome().members() == 3;
            }));
    assertEquals(3, message.outcome().taken());
    assertEquals(List.of(), message.outcome().missed());
    for (Service member : List.of(client, server, third)) {
      try (Message received = receive(member)) {
        assertEquals("all", text(received.item(0)));
        assertEquals(client.id(), received.source());
      }
    }
  }

  @Test
  void membersWithoutRoomAreNamed() throws Exception {
    Service small = serverContext.service().queueMessages(16).register();
    Service roomy = serverContext.service().queueMessages(1024).register();
    small.join(group);
    roomy.join(group);
    assertTrue(eventually(() -> clientContext.members(group).size() == 2));
    while (client.trySend(small.id(), new Outgoing()) != null) {}
    Outgoing message = new Outgoing().add(bytes("some"));
    client.send(group, message);
    assertEquals(new GroupOutcome(2, 1, List.of(small.id())), message.outcome());
    assertEquals("some", receiveText(roomy));
  }

  /** The native library counts the members beyond its limit, but does not know their IDs. */
  @Test
  void membersWhoseIdsAreNotWrittenAreCountedOnly() {
    Outgoing message = new Outgoing();
    for (long named : new long[] {5, 0}) {
      message.prepare(
          clientContext.core(), new ItemMemory(), 0, true, false, new ReturnBuffer[0], () -> 0);
      NativeBinding binding = Binding.get();
      ByteBuffer options =
          binding.view(message.memory.options(), SendOptions.BYTES).order(ByteOrder.nativeOrder());
      ByteBuffer outcome =
          binding
              .view(options.getLong(SendOptions.OUTCOME), Outcome.BYTES)
              .order(ByteOrder.nativeOrder());
      outcome.putInt(Outcome.MEMBERS, 5000).putInt(Outcome.TAKEN, 4096);
      ByteBuffer missed =
          binding.view(outcome.getLong(Outcome.MISSED), 8).order(ByteOrder.nativeOrder());
      if (named != 0) missed.putLong(0, named);
      message.readResults(true);
      List<ServiceId> expected = named == 0 ? List.of() : List.of(ServiceId.of(named));
      assertEquals(new GroupOutcome(5000, 4096, expected), message.outcome());
    }
  }

  @Test
  void longItemsDoNotTravelToGroups() throws Exception {
    server.join(group);
    assertTrue(eventually(() -> !clientContext.members(group).isEmpty()));
    Outgoing message = new Outgoing().add(pattern(100_000, 1), ItemKind.LONG);
    assertEquals(
        Status.UNSUPPORTED,
        assertThrows(RipcException.class, () -> client.send(group, message)).status());
  }

  @Test
  void aGroupWithoutMembersIsNoService() throws Exception {
    server.join(group);
    server.leave(group);
    assertTrue(
        eventually(
            () -> {
              try {
                client.send(group, bytes("anybody"));
                return false;
              } catch (RipcException.NoService none) {
                return true;
              }
            }));
  }

  @Test
  void aServiceIsFoundByNameAndItsPathIsTold() {
    Service named = serverContext.service().name("greeter").register();
    named.join(group);
    assertEquals(ServiceId.ofName("greeter"), named.id());
    ServiceInfo info = clientContext.resolve("greeter");
    assertEquals(named.id(), info.id());
    assertEquals("greeter", info.name());
    assertEquals(ProcessHandle.current().pid(), info.pid());
    assertEquals(named.incarnation(), info.incarnation());
    assertEquals(List.of(group), info.groups());
    assertEquals(info, clientContext.resolve(named.id()));
    ServiceInfo path = clientContext.findPath(named.id());
    assertEquals(transport, path.transport());
    assertTrue(path.reason().length() > 5);
    assertTrue(clientContext.services().stream().anyMatch(each -> each.name().equals("greeter")));
    assertThrows(RipcException.NoService.class, () -> clientContext.resolve("nobody at all"));
    assertNull(named.poll());
  }

  @Test
  void theMachineIsDiagnosed() {
    List<Finding> findings = Ripc.diagnose();
    assertTrue(!findings.isEmpty());
    for (Finding finding : findings) {
      assertTrue(
          finding.level() <= 2 && !finding.subject().isEmpty() && !finding.text().isEmpty(),
          finding.toString());
    }
    assertEquals("0.1.0", Ripc.version());
  }
}
