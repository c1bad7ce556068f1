// SPDX-License-Identifier: Apache-2.0
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.libripc.Outgoing;
import org.libripc.Ripc;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.rpc.CallOptions;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.Request;
import org.libripc.rpc.Rpc;
import org.libripc.rpc.RpcCall;

/**
 * A shop that prices orders, and a client that asks for several prices at once. Run {@code Calls
 * server}, then {@code Calls client WORD...}. The word {@code bye} ends the server.
 */
public final class Calls {
  private static final int PRICE = 1;
  private static final int STOCK = 2;
  private static final int BYE = 3;

  private Calls() {}

  /** Runs the server or the client. */
  public static void main(String[] arguments) throws Exception {
    if (arguments[0].equals("server")) {
      serve();
    } else {
      client(List.of(arguments).subList(1, arguments.length));
    }
  }

  private static void serve() throws InterruptedException {
    AtomicBoolean closed = new AtomicBoolean();
    ExecutorService executor = Executors.newFixedThreadPool(2);
    try (Ripc ripc = Ripc.open();
        Service service = ripc.service().name("shop").register();
        Rpc rpc = Rpc.open(service)) {
      // Runs in the serving thread, so it must not wait.
      rpc.on(STOCK, request -> request.reply(bytes("12")));
      // Runs in a thread of the executor, so it may wait. Its nested call gets no more time than
      // the request has left.
      rpc.on(PRICE, executor, request -> price(rpc, request));
      rpc.on(
          BYE,
          request -> {
            request.reply(new Outgoing());
            closed.set(true);
          });
      System.out.println("Calls: serving");
      while (!closed.get()) rpc.run(1, TimeUnit.SECONDS);
      System.out.println("Calls: the shop is closed");
    } finally {
      executor.shutdown();
    }
  }

  private static void price(Rpc rpc, Request order) throws InterruptedException {
    CallOptions options = new CallOptions().parent(order);
    try (CallResult stock = rpc.callWait(rpc.service().id(), STOCK, new Outgoing(), options)) {
      if (!stock.isAnswered()) {
        order.refuse(stock.status());
        return;
      }
      int price = 5 * order.item(0).remaining();
      order.reply(bytes(price + " each, " + text(stock.item(0)) + " in stock"));
    }
  }

  private static void client(List<String> words) throws Exception {
    try (Ripc ripc = Ripc.open();
        Service service = ripc.register();
        Rpc rpc = Rpc.open(service)) {
      ServiceId shop = ServiceId.ofName("shop");
      ripc.waitService(shop, 10, TimeUnit.SECONDS);
      List<RpcCall> calls = new ArrayList<>();
      for (String word : words)
        if (!word.equals("bye")) calls.add(rpc.call(shop, PRICE, bytes(word)));
      while (!calls.stream().allMatch(RpcCall::isDone)) rpc.run(1, TimeUnit.SECONDS);
      for (int index = 0; index < calls.size(); ++index) {
        try (CallResult result = calls.get(index).join()) {
          System.out.println(
              "Calls: "
                  + words.get(index)
                  + ": "
                  + (result.isAnswered() ? text(result.item(0)) : result.toString()));
        }
      }
      if (words.contains("bye")) rpc.callWait(shop, BYE, new Outgoing()).close();
    }
  }

  private static ByteBuffer bytes(String text) {
    return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
  }

  private static String text(ByteBuffer bytes) {
    return StandardCharsets.UTF_8.decode(bytes).toString();
  }
}
