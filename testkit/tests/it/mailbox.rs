use std::time::Duration;

use lettre::transport::smtp::authentication::Credentials;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use testkit::{Mail, TestMailbox};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(10);

struct Client(BufReader<TcpStream>);

impl Client {
    async fn connect(mailbox: &TestMailbox) -> Self {
        let mut client = Self(BufReader::new(TcpStream::connect(mailbox.address()).await.unwrap()));
        assert_eq!(client.code().await, 220);
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).await.unwrap();
    }

    /// Returns the code of the next response, after skipping its continuation lines.
    async fn code(&mut self) -> u16 {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.unwrap();
            assert!(line.ends_with("\r\n"), "{line:?}");
            if line.as_bytes()[3] == b' ' {
                return line[..3].parse().unwrap();
            }
        }
    }

    async fn codes(&mut self, lines: &str) -> Vec<u16> {
        self.send(lines.as_bytes()).await;
        let mut codes = Vec::new();
        for _ in lines.lines() {
            codes.push(self.code().await);
        }
        codes
    }

    async fn envelope(&mut self) {
        let codes = self.codes("EHLO me\r\nMAIL FROM:<a@x.org>\r\nRCPT TO:<b@x.org>\r\nDATA\r\n").await;
        assert_eq!(codes, [250, 250, 250, 354]);
    }

    async fn is_closed(&mut self) -> bool {
        tokio::time::timeout(SOON, self.0.read_to_end(&mut Vec::new())).await.unwrap().unwrap() == 0
    }
}

fn single(mails: Vec<Mail>) -> Vec<u8> {
    assert_eq!(mails.len(), 1);
    mails.into_iter().next().unwrap().raw
}

#[tokio::test]
async fn mail_is_stored_unchanged_before_it_is_acknowledged() {
    let mailbox = TestMailbox::start().await;
    let mut client = Client::connect(&mailbox).await;
    client.envelope().await;
    client.send(b"Subject: dots\r\n\r\n..one\r\n...\r\n lone\nfeed \0\xff\r\n.\r\n").await;
    assert_eq!(client.code().await, 250);
    let head = b"Return-Path: <a@x.org>\r\nDelivered-To: b@x.org\r\n".as_slice();
    let mail = b"Subject: dots\r\n\r\n.one\r\n..\r\n lone\nfeed \0\xff\r\n".as_slice();
    assert_eq!(single(mailbox.mails()), [head, mail].concat());
    assert_eq!(client.codes("QUIT\r\n").await, [221]);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn pipelined_commands_send_several_mails() {
    let mailbox = TestMailbox::start().await;
    let mut client = Client::connect(&mailbox).await;
    client.envelope().await;
    let next = "MAIL FROM:<>\r\nRCPT TO:<c@x.org>\r\nRCPT TO:<d@x.org>\r\nDATA\r\n";
    client.send(format!("Subject: 1\r\n\r\n.\r\n{next}").as_bytes()).await;
    for expected in [250, 250, 250, 250, 354] {
        assert_eq!(client.code().await, expected);
    }
    client.send(b"Subject: 2\r\n\r\n.\r\nQUIT\r\n").await;
    assert_eq!((client.code().await, client.code().await), (250, 221));
    let mails = mailbox.mails();
    assert_eq!(mails.iter().filter_map(|mail| mail.header("Subject")).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(mails[1].delivered_to(), ["c@x.org", "d@x.org"]);
}

#[tokio::test]
async fn incomplete_mail_is_not_stored() {
    let mailbox = TestMailbox::start().await;
    let mut client = Client::connect(&mailbox).await;
    client.envelope().await;
    client.send(b"Subject: half\r\n\r\nha").await;
    drop(client);
    let mut client = Client::connect(&mailbox).await;
    assert_eq!(client.codes("NOOP\r\nQUIT\r\n").await, [250, 221]);
    assert_eq!(mailbox.mails(), []);
    assert_eq!(std::fs::read_dir(mailbox.dir()).unwrap().count(), 0);
}

#[tokio::test]
async fn oversized_mails_and_lines_are_rejected_and_the_session_continues() {
    let mailbox = TestMailbox::start_with(|config| local_servers::MailboxConfig { max_size: 100, ..config }).await;
    let mut client = Client::connect(&mailbox).await;
    client.envelope().await;
    client.send(format!("{}\r\n.\r\n", "x".repeat(200)).as_bytes()).await;
    assert_eq!(client.code().await, 552);
    assert_eq!(client.codes(&format!("NOOP {}\r\n", "y".repeat(100_000))).await, [500]);
    assert_eq!(client.codes("MAIL FROM:<a@x.org> SIZE=101\r\nNOOP\r\n").await, [552, 250]);
    assert_eq!(mailbox.mails(), []);
}

#[tokio::test]
async fn tagged_recipients_fail_as_specified() {
    let mailbox = TestMailbox::start().await;
    let mut client = Client::connect(&mailbox).await;
    let lines = "EHLO me\r\nMAIL FROM:<a@x.org>\r\nRCPT TO:<b+reject550@x.org>\r\nRCPT TO:<b+defer451@x.org>\r\n";
    assert_eq!(client.codes(lines).await, [250, 250, 550, 451]);
    assert_eq!(client.codes("RCPT TO:<b+unanswered@x.org>\r\nDATA\r\n").await, [250, 354]);
    client.send(b"\r\n.\r\n").await;
    assert!(client.is_closed().await);
    assert_eq!(mailbox.mails().len(), 1);

    let mut client = Client::connect(&mailbox).await;
    client.send(b"EHLO me\r\nMAIL FROM:<a@x.org>\r\nRCPT TO:<b+hang@x.org>\r\nNOOP\r\n").await;
    assert_eq!((client.code().await, client.code().await), (250, 250));
    assert!(tokio::time::timeout(Duration::from_millis(100), client.code()).await.is_err());
}

fn transport(mailbox: &TestMailbox) -> lettre::transport::smtp::AsyncSmtpTransportBuilder {
    AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1").port(mailbox.port())
}

fn message(subject: &str) -> Message {
    let builder = Message::builder().from("Añn <a@x.org>".parse().unwrap()).to("b@x.org".parse().unwrap());
    builder.subject(subject).body("Hallo\r\n.\r\n😀\r\n".to_owned()).unwrap()
}

#[tokio::test]
async fn wrong_login_is_rejected_and_correct_login_accepted() {
    let mailbox = TestMailbox::start_with_auth("ann", "secret").await;
    let login = |password: &str| Credentials::new("ann".to_owned(), password.to_owned());
    let wrong = transport(&mailbox).credentials(login("wrong")).build();
    assert_eq!(u16::from(wrong.send(message("x")).await.unwrap_err().status().unwrap()), 535);
    assert!(transport(&mailbox).build::<Tokio1Executor>().send(message("x")).await.is_err());
    let right = transport(&mailbox).credentials(login("secret")).build::<Tokio1Executor>();
    right.send(message("y")).await.unwrap();
    assert_eq!(mailbox.mails().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_clients_all_deliver_their_mails() {
    let mailbox = TestMailbox::start().await;
    let clients = (0..20).map(|client| {
        let transport = transport(&mailbox).build::<Tokio1Executor>();
        tokio::spawn(async move {
            for n in 0..10 {
                transport.send(message(&format!("{client}-{n}"))).await.unwrap();
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let mails = mailbox.wait_for(200, SOON).await;
    let subjects: std::collections::HashSet<_> = mails.iter().filter_map(|mail| mail.header("Subject")).collect();
    assert_eq!((mails.len(), subjects.len()), (200, 200));
}

#[tokio::test]
async fn stopping_ends_all_sessions() {
    let mailbox = TestMailbox::start().await;
    let mut idle = Client::connect(&mailbox).await;
    let mut hanging = Client::connect(&mailbox).await;
    hanging.send(b"EHLO me\r\nMAIL FROM:<a@x.org>\r\nRCPT TO:<b+hang@x.org>\r\n").await;
    assert_eq!((hanging.code().await, hanging.code().await), (250, 250));
    mailbox.stop();
    assert_eq!(idle.code().await, 421);
    assert!(idle.is_closed().await && hanging.is_closed().await);
    assert!(TcpStream::connect(mailbox.address()).await.is_err());
}
