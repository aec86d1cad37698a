// A client that was generated from penstock_gateway.proto: publishes by a stream, consumes as a group.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "penstock/penstock/v1"
)

const count = 100

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func publish(ctx context.Context, conn *grpc.ClientConn) []*pb.Place {
	stream, err := pb.NewPublishingClient(conn).PublishStream(ctx)
	check(err)
	go func() {
		for number := 0; number < count; number++ {
			key, token := "k", fmt.Sprintf("t-%d", number)
			event := &pb.Event{Key: &key, Value: []byte(fmt.Sprint(number)), ContentType: "text/plain"}
			request := &pb.PublishRequest{Topic: "orders", Events: []*pb.Event{event}, Token: &token}
			check(stream.Send(request))
		}
		check(stream.CloseSend())
	}()
	var places []*pb.Place
	for {
		answer, err := stream.Recv()
		if err == io.EOF {
			return places
		}
		check(err)
		places = append(places, answer.Places...)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	_, err = pb.NewTopicsClient(conn).Create(ctx, &pb.CreateTopicRequest{Name: "orders", Partitions: 2})
	check(err)
	first := publish(ctx, conn)
	fmt.Println("published", len(first))
	for number, place := range publish(ctx, conn) { // the same tokens again
		if place.Partition != first[number].Partition || place.Offset != first[number].Offset {
			log.Fatal("another place")
		}
	}
	fmt.Println("same places")

	stream, err := pb.NewConsumingClient(conn).Subscribe(ctx)
	check(err)
	begin := &pb.SubscribeRequest_Begin{Topic: "orders", Group: "mailer", Credits: 10}
	check(stream.Send(&pb.SubscribeRequest{Request: &pb.SubscribeRequest_Begin_{Begin: begin}}))
	next, settled := 0, 0
	for settled < count {
		answer, err := stream.Recv()
		check(err)
		settled += int(answer.GetSettled().GetCount())
		for _, record := range answer.GetRecords().GetRecords() {
			if string(record.Value) != fmt.Sprint(next) {
				log.Fatal("out of order")
			}
			next++
			place := &pb.PlaceRange{Partition: record.Partition, First: record.Offset, Last: record.Offset}
			ack := &pb.SubscribeRequest_Ack{Id: uint64(next), Ranges: []*pb.PlaceRange{place}}
			check(stream.Send(&pb.SubscribeRequest{Request: &pb.SubscribeRequest_Ack_{Ack: ack}}))
		}
	}
	fmt.Println("consumed", next, "in order")

	_, err = pb.NewTopicsClient(conn).Get(ctx, &pb.GetTopicRequest{Name: "none"})
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			fmt.Println(status.Code(err), info.Reason)
		}
	}
}
