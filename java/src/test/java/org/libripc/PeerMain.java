// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * The other process of the tests: one context, one service, one command a line, one answer a line.
 */
final class PeerMain {
  private final Ripc ripc;
  private Service service;
  private Message message;
  private Ticket ticket;

  private PeerMain(String transport, Path directory) {
    ripc =
        Ripc.builder()
            .transports(transport)
            .runtimeDirectory(directory)
            .clusterKeyFile(TestKey.in(directory))
            .open();
  }

  public static void main(String[] arguments) throws Exception {
    PeerMain peer = new PeerMain(arguments[0], Path.of(arguments[1]));
    BufferedReader commands =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String answer;
      try {
        answer = peer.perform(line.split(" "));
      } catch (RipcException failure) {
        answer = failure.status().toString();
      }
      System.out.println(answer);
    }
  }

  private String perform(String[] words) throws Exception {
    switch (words[0]) {
      case "register":
        service = ripc.service().id(Long.parseLong(words[1])).register();
        return "OK";
      case "send":
        service.send(ServiceId.of(Long.parseLong(words[1])), PairTest.bytes(words[2]));
        return "OK";
      case "stream":
        return stream(ServiceId.of(Long.parseLong(words[1])), Integer.parseInt(words[2]));
      case "send_long":
        try (RegisteredBuffer buffer = ripc.lease(Integer.parseInt(words[2]))) {
          buffer.buffer().put(PairTest.pattern(buffer.size(), Long.parseLong(words[3])));
          Outgoing long1 = new Outgoing().add(buffer, ItemKind.LONG);
          ticket = service.send(ServiceId.of(Long.parseLong(words[1])), long1);
        }
        return "OK";
      case "wait":
        return PairTest.finalStatus(ticket).toString();
      case "post":
        service.post(new ReceiveWindow(ByteBuffer.allocateDirect(Integer.parseInt(words[1]))));
        return "OK";
      case "receive":
        message = service.lending(words.length > 1).receive(PairTest.LIMIT, TimeUnit.SECONDS);
        return message == null ? "TIMEOUT" : message.itemCount() + " " + message.size(0);
      case "reply":
        service.reply(message, PairTest.bytes(words[1]));
        return "OK";
      default:
        return "unknown command";
    }
  }

  private String stream(ServiceId to, int count) throws InterruptedException {
    Outgoing numbered = new Outgoing();
    for (int index = 0; index < count; ++index) {
      service.send(to, numbered.clear().tag(index), PairTest.LIMIT, TimeUnit.SECONDS);
    }
    return "OK";
  }
}
