// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.net.InetAddress;
import java.net.UnknownHostException;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.libripc.Ripc;

/** The name of the service follows from what the NodeManager tells others. */
class RipcShuffleHandlerTest {
  private final Configuration conf = new Configuration(false);

  private String host() throws UnknownHostException {
    return RipcShuffleHandler.host(conf);
  }

  @Test
  void isThatOfTheAddress() throws UnknownHostException {
    conf.set("yarn.nodemanager.address", "127.0.0.1:45454");
    assertEquals(InetAddress.getByName("127.0.0.1").getCanonicalHostName(), host());
  }

  @Test
  void isTheMachinesIfTheAddressIsAny() throws UnknownHostException {
    conf.set("yarn.nodemanager.address", "0.0.0.0:0");
    assertEquals(InetAddress.getLocalHost().getCanonicalHostName(), host());
  }

  @Test
  void isAsWrittenWithABindHost() throws UnknownHostException {
    conf.set("yarn.nodemanager.bind-host", "0.0.0.0");
    conf.set("yarn.nodemanager.address", "outside.example:45454");
    assertEquals("outside.example", host());
  }

  @Test
  void isWhatTheOperatorSays() throws UnknownHostException {
    conf.set("yarn.nodemanager.address", "127.0.0.1:45454");
    conf.set(Keys.HOST, "told.example");
    assertEquals("told.example", host());
  }

  @Test
  void numbersBeyondAnIntAreTheLargest() {
    conf.set(Keys.UNDER_WAY, "4294967296");
    assertEquals(Integer.MAX_VALUE, Keys.atLeast(1, conf, Keys.UNDER_WAY, 1));
    conf.set(Keys.UNDER_WAY, "-4294967296");
    assertEquals(1, Keys.atLeast(1, conf, Keys.UNDER_WAY, 7));
  }

  @Test
  void aPolicyThatIsNoneIsRefused() {
    conf.set(Keys.PEERS, "friends");
    assertThrows(IllegalArgumentException.class, () -> Keys.builder(conf, Ripc.builder()));
  }
}
