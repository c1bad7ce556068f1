// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.OptionalInt;
import java.util.function.Consumer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Who a message is from. */
@Tag("jna")
class PeerIdentityTest extends PairTest {
  // RFC 8032, section 7.1, test 1.
  private static final String SECRET =
      "secret ed25519:9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n";
  private static final String KEY =
      "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

  private int user() throws Exception {
    return (int) Files.getAttribute(directory, "unix:uid");
  }

  /** As `ripc trust` does it: a reader sees the old file or the new one. */
  private static void write(Path file, String text) throws Exception {
    Path whole = file.resolveSibling("new");
    Files.writeString(whole, text);
    Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE);
  }

  @Test
  void aMessageSaysWhichUserItIsFrom() throws Exception {
    for (int i = 0; i < 2; ++i) client.send(server.id(), bytes("hello"));
    try (Message first = receive(server);
        Message second = receive(server)) {
      assertEquals(new Peer("", OptionalInt.of(user())), first.peer());
      assertSame(first.peer(), second.peer());
    }
  }

  @Test
  void aSenderThatComesByTwoPathsIsOneObject() throws Exception {
    try (Ripc receiving = context(options -> options.transports("shm", "socket"));
        Service receiver = receiving.register();
        Ripc near = context(options -> options.transports("shm"));
        Service nearby = near.register();
        Ripc far = context(options -> options.transports("socket"));
        Service distant = far.register()) {
      nearby.send(receiver.id(), bytes("near"));
      try (Message first = receive(receiver)) {
        distant.send(receiver.id(), bytes("far"));
        try (Message second = receive(receiver)) {
          assertEquals(new Peer("", OptionalInt.of(user())), second.peer());
          assertSame(first.peer(), second.peer());
        }
      }
    }
  }

  @Test
  void theTrustFileSaysWhichMemberThatIs() throws Exception {
    Path trust = directory.resolve("trust");
    Files.writeString(trust, "me " + KEY + " user=" + user() + "\n");
    try (Ripc trusting = context(options -> options.trustFile(trust));
        Service service = trusting.register()) {
      client.send(service.id(), bytes("hello"));
      try (Message message = receive(service)) {
        assertEquals(new Peer("me", OptionalInt.of(user())), message.peer());
      }
    }
  }

  /** As between hosts, where no user is proven. Here the kernel also tells the user. */
  @Test
  void overSocketsAMemberProvesItsKey() throws Exception {
    Path trust = directory.resolve("trust");
    Files.writeString(trust, "me " + KEY + "\n");
    Path identity = directory.resolve("identity.key");
    Files.createFile(
        identity,
        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    Files.writeString(identity, SECRET);
    Consumer<RipcBuilder> member =
        options -> options.transports("socket").identityFile(identity).trustFile(trust);
    try (Ripc receiving = context(member);
        Service receiver = receiving.register();
        Ripc sending = context(member);
        Service sender = sending.register()) {
      sender.send(receiver.id(), bytes("hello"));
      try (Message message = receive(receiver)) {
        assertEquals(new Peer("me", OptionalInt.of(user())), message.peer());
      }
    }
  }

  @Test
  void refusalsAreCountedAndABrokenTrustFileIsReported() throws Exception {
    Path trust = directory.resolve("trust");
    String me = "me " + KEY + " calls= user=" + user() + "\n";
    write(trust, me);
    try (Ripc trusting = context(options -> options.trustFile(trust));
        Service service = trusting.service().id(77).register()) {
      trusting.checkTrust();
      assertEquals(new SecurityStatistics(0, 0, 0, 0, 0, 0), trusting.securityStatistics());
      RipcException refused =
          assertThrows(RipcException.class, () -> client.send(service.id(), bytes("hello")));
      assertEquals(Status.REFUSED, refused.status());
      assertEquals(new SecurityStatistics(0, 1, 0, 0, 0, 0), trusting.securityStatistics());
      write(trust, "nonsense\n");
      RipcException error = assertThrows(RipcException.class, trusting::checkTrust);
      assertTrue(error.getMessage().contains("line 1"), error::getMessage);
      assertEquals(new SecurityStatistics(0, 1, 0, 0, 0, 1), trusting.securityStatistics());
      for (String more : new String[] {"# one\n", "# two\n"}) {
        write(trust, me + more);
        trusting.checkTrust();
      }
      assertEquals(new SecurityStatistics(0, 1, 0, 0, 2, 1), trusting.securityStatistics());
    }
  }

  @Test
  void filesThatCannotBeUsedAreErrors() {
    Path missing = directory.resolve("missing");
    assertThrows(RipcException.class, () -> context(options -> options.trustFile(missing)));
    assertThrows(RipcException.class, () -> context(options -> options.identityFile(missing)));
  }

  @Test
  void theSamePeerIsKnownByWhateverPathItCame() {
    Peer alice = new Peer("alice", OptionalInt.empty());
    Peer here = new Peer("", OptionalInt.of(7));
    Peer both = new Peer("alice", OptionalInt.of(7));
    assertTrue(alice.canBe(new Peer("alice", OptionalInt.empty())));
    assertTrue(alice.canBe(both));
    assertTrue(here.canBe(both));
    assertTrue(Peer.UNKNOWN.canBe(new Peer("", OptionalInt.empty())));
    assertFalse(alice.canBe(new Peer("bob", OptionalInt.empty())));
    assertFalse(both.canBe(new Peer("bob", OptionalInt.of(7))));
    assertFalse(here.canBe(new Peer("", OptionalInt.of(8))));
    assertFalse(alice.canBe(Peer.UNKNOWN));
    assertFalse(here.canBe(Peer.UNKNOWN));
  }
}
